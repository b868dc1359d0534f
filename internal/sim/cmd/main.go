// Command cmd runs the simulator over a range of seeds and prints what
// happened. It ends with status 1 at the first violation.
//
//	go run ./internal/sim/cmd -seeds 1000 -seed 1 -events 10000
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/sim"
)

func main() {
	seed := flag.Uint64("seed", 1, "first seed")
	seeds := flag.Uint64("seeds", 100, "how many seeds")
	events := flag.Int("events", 10000, "events per seed while faults last")
	trace := flag.Bool("trace", false, "print every event; for one seed")
	first := flag.Bool("first", false, "stop at the first violation")
	twice := flag.Bool("twice", false, "run each seed twice and compare the traces")
	flag.Parse()
	debug.SetGCPercent(800) // worlds are small and short-lived
	start := time.Now()

	results := make([]sim.Result, *seeds)
	var wg sync.WaitGroup
	next := make(chan uint64)
	var violated atomic.Bool
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				cfg := sim.Config{Seed: *seed + i, Events: *events}
				if *trace {
					cfg.Trace = os.Stdout
				}
				results[i] = sim.Run(cfg)
				if *twice && results[i].Violation == nil && sim.Run(cfg).Hash != results[i].Hash {
					results[i].Violation = fmt.Errorf("seed %d: two runs, two traces", cfg.Seed)
				}
				if results[i].Violation != nil {
					violated.Store(true)
				}
			}
		})
	}
	began := *seeds
	for i := range *seeds {
		if *first && violated.Load() {
			began = i
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	code := report(results[:began], *twice, time.Since(start))
	os.Exit(code)
}

func report(results []sim.Result, twice bool, took time.Duration) int {
	var sum sim.Counts
	var hash uint64
	violations := 0
	for _, r := range results {
		sum.Add(r.Counts)
		hash = hash*1099511628211 ^ r.Hash
		if r.Violation != nil {
			violations++
			fmt.Println(r.Violation)
		}
	}
	fmt.Println(sum)
	done := sum.Events
	if twice {
		done *= 2
	}
	fmt.Fprintf(os.Stderr, "%.0f events/s\n", float64(done)/took.Seconds())
	if err := sum.Minimums(); err != nil && violations == 0 && len(results) >= 10 {
		fmt.Println(err)
		violations++
	}
	fmt.Printf("seeds %d events %d violations %d hash %016x\n", len(results), sum.Events, violations, hash)
	return min(violations, 1)
}
