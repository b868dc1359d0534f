// Command cmd runs the simulator of groups over a range of seeds and prints what
// happened. It ends with status 1 if there was a violation.
//
//	go run ./internal/sim/groups/cmd -seeds 1000 -seed 1 -events 10000
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/sim/groups"
)

func main() {
	seed := flag.Uint64("seed", 1, "first seed")
	seeds := flag.Uint64("seeds", 100, "how many seeds")
	events := flag.Int("events", 10000, "events per seed while faults last")
	trace := flag.Bool("trace", false, "print what happens; for one seed")
	first := flag.Bool("first", false, "stop at the first violation")
	twice := flag.Bool("twice", false, "run each seed twice and compare the traces")
	flag.Parse()

	start := time.Now()
	results := make([]groups.Result, *seeds)
	next := make(chan uint64)
	var wg sync.WaitGroup
	var violated atomic.Bool
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				cfg := groups.Config{Seed: *seed + i, Events: *events}
				if *trace {
					cfg.Trace = os.Stdout
				}
				r := groups.Run(cfg)
				if *twice && r.Violation == nil && groups.Run(cfg).Hash != r.Hash {
					r.Violation = fmt.Errorf("seed %d: two runs, two traces", cfg.Seed)
				}
				results[i] = r
				if r.Violation != nil {
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
	os.Exit(report(results[:began], time.Since(start)))
}

func report(results []groups.Result, took time.Duration) int {
	var sum groups.Counts
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
	fmt.Printf("%+v\n", sum)
	fmt.Fprintf(os.Stderr, "%.0f events/s\n", float64(sum.Events)/took.Seconds())
	if err := sum.Minimums(); err != nil && violations == 0 && len(results) >= 10 {
		fmt.Println(err)
		violations++
	}
	fmt.Printf("seeds %d events %d violations %d hash %016x\n", len(results), sum.Events, violations, hash)
	return min(violations, 1)
}
