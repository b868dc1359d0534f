package peer

import (
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrNoController: nobody is known to be the active controller.
var ErrNoController = errors.New("no active controller is known")

// maxToController bounds the requests that are with the controller or wait for one.
const maxToController = 10_000

// Controller sends requests to whoever is the active controller at the moment.
// A request that could not be answered is sent again, to the same controller or
// the next, until its time is up; so one whose connection broke may be executed
// twice, as with Kafka's brokers (NodeToControllerRequestThread). Safe for
// concurrent use.
type Controller struct {
	pool   *Pool
	active func() (Node, bool)

	mu      sync.Mutex
	closed  bool
	count   int
	waiting map[*attempt]struct{}
}

// attempt is one request on its way.
type attempt struct {
	r        Request
	again    func(kmsg.Response) bool
	deadline time.Time
	last     error
	timer    *time.Timer
}

// NewController sends through pool. active gives the controller, if one is
// known; it is called on any goroutine and must not block.
func NewController(pool *Pool, active func() (Node, bool)) *Controller {
	return &Controller{pool: pool, active: active, waiting: map[*attempt]struct{}{}}
}

// Send queues a request and returns at once; Done is called once, on another
// goroutine. again tells of an answer that it means "not decided, ask the next
// controller" (NOT_CONTROLLER); nil means never. The error of a request whose
// time is up is the last reason, joined with ErrTimeout.
func (c *Controller) Send(r Request, again func(kmsg.Response) bool) {
	if r.Timeout <= 0 {
		r.Timeout = c.pool.opts.RequestTimeout
	}
	a := &attempt{r: r, again: again, deadline: time.Now().Add(r.Timeout)}
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		go r.Done(nil, ErrClosed)
		return
	case c.count >= maxToController:
		c.mu.Unlock()
		go r.Done(nil, ErrQueueFull)
		return
	}
	c.count++
	c.mu.Unlock()
	c.try(a)
}

// try sends once, or waits for a controller. It never calls Done itself unless
// it runs on a goroutine of the pool or of a timer.
func (c *Controller) try(a *attempt) {
	node, ok := c.active()
	if !ok {
		c.wait(a, ErrNoController)
		return
	}
	left := time.Until(a.deadline)
	if left <= 0 {
		c.wait(a, a.last)
		return
	}
	r := a.r
	r.Timeout = left
	r.Done = func(resp kmsg.Response, err error) {
		switch {
		case errors.Is(err, ErrUnsupportedVersion) || errors.Is(err, ErrClosed):
			c.done(a, nil, err)
		case err != nil:
			c.wait(a, err)
		case a.again != nil && a.again(resp):
			c.wait(a, ErrNoController)
		default:
			c.done(a, resp, nil)
		}
	}
	c.pool.Send(node, r)
}

func (c *Controller) done(a *attempt, resp kmsg.Response, err error) {
	c.mu.Lock()
	c.count--
	c.mu.Unlock()
	a.r.Done(resp, err)
}

// wait tries again after a pause, which Changed ends early, or gives up when the
// time is up.
func (c *Controller) wait(a *attempt, why error) {
	a.last = why
	pause := min(c.pool.opts.RetryPause, max(time.Until(a.deadline), 0))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.count--
		go a.r.Done(nil, ErrClosed)
		return
	}
	c.waiting[a] = struct{}{}
	a.timer = time.AfterFunc(pause, func() { c.resume(a) })
}

// resume goes on with a request that waited, once.
func (c *Controller) resume(a *attempt) {
	c.mu.Lock()
	_, waits := c.waiting[a]
	delete(c.waiting, a)
	c.mu.Unlock()
	switch {
	case !waits:
	case time.Until(a.deadline) <= 0:
		c.done(a, nil, errors.Join(ErrTimeout, a.last))
	default:
		c.try(a)
	}
}

// Changed tells that another controller may be known: what waits is tried at
// once, and what a former one was asked goes to the new one. The former may
// hang, and what it decided but could not commit is lost.
func (c *Controller) Changed() {
	if node, ok := c.active(); ok {
		c.pool.Keep(node.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range c.waiting {
		a.timer.Reset(0)
	}
}

// Close fails what waits and what comes. Requests that are with the pool end
// with it.
func (c *Controller) Close() {
	c.mu.Lock()
	c.closed = true
	waiting := c.waiting
	c.waiting = map[*attempt]struct{}{}
	c.count -= len(waiting)
	c.mu.Unlock()
	for a := range waiting {
		a.timer.Stop()
		a.r.Done(nil, ErrClosed)
	}
}
