package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// linearChecker: creating, deleting and looking for a topic behaves as if it
// happened at one moment between question and answer (HC-020).
//
// One thing is as in Kafka: a leader that was deposed and has not noticed may
// answer from what was committed before. So an answer that has written nothing
// may be as old as the beginning of the next leader's epoch.
type linearChecker struct {
	w       *World
	current []string
	ops     map[string][]porcupine.Operation
	unknown map[string]int
	open    []*topicOp // that wait for their outcome
	serial  int
}

type opKind uint8

const (
	createOp opKind = iota
	deleteOp
	lookOp
)

// topicOp is an operation on the topic of a name. present, for lookOp, and ok
// are the outcome.
type topicOp struct {
	name    string
	kind    opKind
	call    kafka.Mono
	known   bool // the outcome
	ok      bool // it was done
	present bool // the name was taken before
	nothing bool // certainly nothing was done, for a reason that is none of ours
}

func newLinearChecker(w *World) *linearChecker {
	c := &linearChecker{w: w, ops: map[string][]porcupine.Operation{}, unknown: map[string]int{}}
	for range 6 {
		c.current = append(c.current, c.fresh())
	}
	return c
}

func (c *linearChecker) fresh() string {
	c.serial++
	return fmt.Sprintf("t%d", c.serial)
}

// names are the topics to work on at the moment.
func (c *linearChecker) names() []string { return c.current }

// take reads the outcome from an answer.
func (o *topicOp) take(a answer) {
	switch {
	case a.err == errRefused:
		o.nothing = true
		return
	case a.err != nil:
		return
	}
	code := kafka.NoError
	switch r := a.resp.(type) {
	case *kmsg.CreateTopicsResponse:
		code = kafka.ErrorCode(r.Topics[0].ErrorCode)
	case *kmsg.DeleteTopicsResponse:
		code = kafka.ErrorCode(r.Topics[0].ErrorCode)
	}
	o.known = true
	switch code {
	case kafka.NoError:
		o.ok, o.present = o.kind != lookOp, o.kind == deleteOp
	case kafka.ErrTopicAlreadyExists:
		o.present = true
	case kafka.ErrUnknownTopicOrPartition:
	default:
		o.nothing = true // too few brokers, say
	}
}

// maxUnknown is how many open outcomes a name may have; each doubles the work
// of the check.
const maxUnknown = 5

func (c *linearChecker) begins(o *topicOp) { c.open = append(c.open, o) }

func (c *linearChecker) add(o *topicOp, a answer) {
	c.open = slices.DeleteFunc(c.open, func(p *topicOp) bool { return p == o })
	if o.nothing || !o.known && o.kind == lookOp {
		return
	}
	op := porcupine.Operation{Input: *o, Call: int64(o.call), Return: int64(c.w.now)}
	if !o.known {
		op.Return = math.MaxInt64
		c.unknown[o.name]++
	} else if !o.ok {
		if next, deposed := c.w.check.leaders.after(a.epoch); deposed {
			op.Call = min(op.Call, int64(next))
		}
	}
	c.ops[o.name] = append(c.ops[o.name], op)
	if c.unknown[o.name] < maxUnknown && len(c.ops[o.name]) < 300 {
		return
	}
	for i := range c.current {
		if c.current[i] == o.name {
			c.current[i] = c.fresh()
		}
	}
}

// model is one name: taken or free.
var model = porcupine.Model{
	Init: func() any { return false },
	Step: func(state, input, _ any) (bool, any) {
		taken, o := state.(bool), input.(topicOp)
		switch {
		case !o.known:
			return true, o.kind == createOp
		case o.ok:
			return taken == o.present, o.kind == createOp
		}
		return taken == o.present, taken
	},
	Equal: func(a, b any) bool { return a.(bool) == b.(bool) },
}

// finish checks all histories.
func (c *linearChecker) finish() {
	for len(c.open) > 0 { // the run has ended before the answer
		c.add(c.open[0], answer{err: errUnknown})
	}
	for i := 1; i <= c.serial && c.w.failed == nil; i++ {
		name := fmt.Sprintf("t%d", i)
		if porcupine.CheckOperationsTimeout(model, c.ops[name], 10*time.Second) == porcupine.Illegal {
			c.w.violate("linearizability", "the history of topic %s has no order: %s", name, c.describe(name))
		}
	}
}

func (c *linearChecker) describe(name string) string {
	s := ""
	for _, op := range c.ops[name] {
		o := op.Input.(topicOp)
		s += fmt.Sprintf("\n    %s %.3f..%.3f known=%t ok=%t present=%t", [...]string{"create", "delete", "look"}[o.kind], float64(op.Call)/1e6, float64(op.Return)/1e6, o.known, o.ok, o.present)
	}
	return s
}
