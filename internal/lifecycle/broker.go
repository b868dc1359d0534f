package lifecycle

import (
	"time"

	"moldau/internal/kafka"
)

// Options are the broker's timing (broker.heartbeat.interval.ms; the retry
// wait is Kafka's reconnect back-off).
type Options struct {
	HeartbeatInterval time.Duration
	RetryBackoff      time.Duration
}

// Phase is how far a broker has come.
type Phase uint8

// The phases, in order.
const (
	Starting     Phase = iota // the metadata has not been loaded yet
	Registering               // a registration is under way or to be tried again
	CatchingUp                // registered; the own registration is not applied yet
	Fenced                    // applied; asks to be unfenced
	Running                   // unfenced
	ShuttingDown              // asks the controller to move its leaderships away
	Stopped                   // nothing is sent any more
)

// Event is something that happened to the broker; see the types.
type Event interface{ event() }

// Loaded: the broker has read the metadata log up to its known end and may
// register. Shells give it once.
type Loaded struct{}

// Registered is the controller's answer to a registration: an epoch, or a code.
type Registered struct {
	Code  kafka.ErrorCode
	Epoch kafka.BrokerEpoch
}

// Applied: everything below End has been applied on this broker: logs are
// opened, leaders known.
type Applied struct{ End kafka.Offset }

// Beaten is the controller's answer to a heartbeat.
type Beaten struct {
	Code     kafka.ErrorCode
	Fenced   bool
	ShutDown bool // the broker may stop now
}

// Disconnected: the connection of the heartbeats broke. The controller may take
// that for the end of this process unless it hears from it at once.
type Disconnected struct{}

// ShutDown: the broker wants to go, after others lead what it leads.
type ShutDown struct{}

// DeadlineReached: the time that Deadline told has come.
type DeadlineReached struct{}

// Stop: the broker is going away.
type Stop struct{}

func (Loaded) event()          {}
func (Registered) event()      {}
func (Applied) event()         {}
func (Beaten) event()          {}
func (DeadlineReached) event() {}
func (Stop) event()            {}
func (Disconnected) event()    {}
func (ShutDown) event()        {}

// Heartbeat is what to send.
type Heartbeat struct {
	Epoch          kafka.BrokerEpoch
	MetadataOffset kafka.Offset // the last one that was applied
	WantFence      bool
	WantShutdown   bool
}

// Effects is what the shell must do after a Step.
type Effects struct {
	Register  bool
	Heartbeat *Heartbeat
	// Duplicate: another live broker has this id; the registration is tried
	// again, and the operator should know now and then (HC-049).
	Duplicate bool
	// Unfenced: the broker may serve clients from now on.
	Unfenced bool
	// ShutDown: nobody needs this broker any more; it may stop.
	ShutDown bool
	// Fatal ends the process: the controller does not want this broker at all.
	Fatal kafka.ErrorCode
}

// Broker is the state machine.
type Broker struct {
	opts  Options
	phase Phase
	epoch kafka.BrokerEpoch
	// twinSince is when another broker was first found to have this id, twinSaid
	// when that was told last; 0 if never.
	twinSince, twinSaid kafka.Mono
	applied             kafka.Offset // everything below
	inFlight            bool
	deadline            kafka.Mono
	giveUp              kafka.Mono // while shutting down: go without the controller's leave
}

// NewBroker makes a broker that waits for Loaded.
func NewBroker(opts Options) *Broker {
	return &Broker{opts: opts, epoch: kafka.NoBrokerEpoch, deadline: kafka.Never, giveUp: kafka.Never}
}

// Phase tells how far the broker has come.
func (b *Broker) Phase() Phase { return b.phase }

// Epoch is that of the registration, or NoBrokerEpoch.
func (b *Broker) Epoch() kafka.BrokerEpoch { return b.epoch }

// Deadline is when DeadlineReached is due.
func (b *Broker) Deadline() kafka.Mono { return min(b.deadline, b.giveUp) }

// Step takes in one event.
func (b *Broker) Step(now kafka.Now, ev Event, out *Effects) {
	if b.phase == Stopped {
		return
	}
	switch ev := ev.(type) {
	case Loaded:
		if b.phase == Starting {
			b.phase = Registering
			b.register(out)
		}
	case Registered:
		b.registered(now, ev, out)
	case Applied:
		b.applied = max(b.applied, ev.End)
		b.catchUp(out)
	case Beaten:
		b.beaten(now, ev, out)
	case DeadlineReached:
		if b.giveUp <= now.Mono {
			b.gone(out)
			return
		}
		b.deadline = kafka.Never
		if b.phase == Registering {
			b.register(out)
		} else if b.phase > Registering {
			b.beat(out)
		}
	case Disconnected:
		if b.phase > Registering {
			b.deadline = kafka.Never
			b.beat(out)
		}
	case ShutDown:
		b.shutDown(now, out)
	case Stop:
		b.phase, b.deadline, b.giveUp = Stopped, kafka.Never, kafka.Never
	}
}

// shutdownInterval is the time between heartbeats while leaderships move
// (BrokerLifecycleManager, in PENDING_CONTROLLED_SHUTDOWN).
const shutdownInterval = 50 * time.Millisecond

// shutdownPatience is how long a broker that wants to go waits for a controller
// to say anything: a failover takes less, and a quorum that has gone never will.
const shutdownPatience = 2 * time.Second

// shutDown begins a controlled shutdown. Whoever is not in service leads
// nothing and may go.
func (b *Broker) shutDown(now kafka.Now, out *Effects) {
	if b.phase < Running {
		b.gone(out)
	} else if b.phase == Running {
		b.phase, b.deadline, b.giveUp = ShuttingDown, kafka.Never, now.Mono.Add(shutdownPatience)
		b.beat(out) // or after the answer that is under way
	}
}

func (b *Broker) gone(out *Effects) {
	b.phase, b.deadline, b.giveUp, out.ShutDown = Stopped, kafka.Never, kafka.Never, true
}

func (b *Broker) register(out *Effects) {
	if b.inFlight {
		return
	}
	b.inFlight, out.Register = true, true
}

// retriable are the answers after which a registration is tried again.
func retriable(code kafka.ErrorCode) bool {
	switch code {
	case kafka.ErrNotController, kafka.ErrRequestTimedOut,
		kafka.ErrCoordinatorLoadInProgress, kafka.ErrUnknownServerError, kafka.ErrBrokerNotAvailable:
		return true
	}
	return false
}

func (b *Broker) registered(now kafka.Now, ev Registered, out *Effects) {
	if b.phase != Registering {
		return
	}
	b.inFlight = false
	switch {
	case ev.Code == 0:
		b.epoch, b.phase = ev.Epoch, CatchingUp
		b.twinSince, b.twinSaid = 0, 0
		b.catchUp(out)
		if b.phase == CatchingUp {
			b.beat(out) // keep the session alive meanwhile
		}
	case ev.Code == kafka.ErrDuplicateBrokerRegistration:
		b.duplicate(now, out)
	case retriable(ev.Code):
		b.deadline = now.Mono.Add(b.opts.RetryBackoff)
	default:
		out.Fatal = ev.Code
	}
}

// Of another broker with this id. It is most often this broker's own last run,
// whose session ends soon. One that stays longer than usualSession is somebody
// else: there is no hurry any more. The operator is told once a sayAgain.
const (
	usualSession = 20 * time.Second
	slowRetry    = time.Second
	sayAgain     = 10 * time.Second
)

func (b *Broker) duplicate(now kafka.Now, out *Effects) {
	if b.twinSince == 0 {
		b.twinSince = now.Mono
	}
	if b.twinSaid == 0 || now.Mono.Sub(b.twinSaid) >= sayAgain {
		b.twinSaid, out.Duplicate = now.Mono, true
	}
	wait := b.opts.RetryBackoff
	if now.Mono.Sub(b.twinSince) >= usualSession {
		wait = max(wait, slowRetry)
	}
	b.deadline = now.Mono.Add(wait)
}

// catchUp asks to be unfenced as soon as the own registration is applied. The
// record of the registration is at the offset that is the broker epoch, or a
// little behind it when clean-up records came first (Trap 3); the controller
// decides by its own knowledge and answers whether it was enough.
func (b *Broker) catchUp(out *Effects) {
	if b.phase == CatchingUp && int64(b.applied) > int64(b.epoch) {
		b.phase = Fenced
		b.beat(out)
	}
}

func (b *Broker) beat(out *Effects) {
	if b.inFlight {
		return
	}
	b.inFlight = true
	out.Heartbeat = &Heartbeat{Epoch: b.epoch, MetadataOffset: b.applied - 1, WantFence: b.phase < Fenced, WantShutdown: b.phase == ShuttingDown}
}

func (b *Broker) beaten(now kafka.Now, ev Beaten, out *Effects) {
	b.inFlight = false
	if b.phase == ShuttingDown {
		b.leaving(now, ev, out)
		return
	}
	switch {
	case ev.Code == kafka.ErrStaleBrokerEpoch || ev.Code == kafka.ErrBrokerIDNotRegistered:
		// The controller has forgotten this registration: make another.
		b.phase, b.epoch = Registering, kafka.NoBrokerEpoch
		b.register(out)
		return
	case ev.Code != 0:
		b.deadline = now.Mono.Add(b.opts.RetryBackoff)
		return
	case b.phase == CatchingUp && int64(b.applied) > int64(b.epoch):
		b.catchUp(out)
		return
	case b.phase == Fenced && !ev.Fenced:
		b.phase, out.Unfenced = Running, true
	case b.phase == Running && ev.Fenced:
		b.phase = Fenced
	}
	wait := b.opts.HeartbeatInterval
	if b.phase == Fenced {
		wait = min(wait, b.opts.RetryBackoff)
	}
	b.deadline = now.Mono.Add(wait)
}

// leaving takes the answer to a heartbeat during a controlled shutdown.
func (b *Broker) leaving(now kafka.Now, ev Beaten, out *Effects) {
	if ev.ShutDown || ev.Code == kafka.ErrStaleBrokerEpoch || ev.Code == kafka.ErrBrokerIDNotRegistered {
		b.gone(out)
		return
	}
	if ev.Code == 0 {
		b.giveUp = now.Mono.Add(shutdownPatience)
	}
	b.deadline = now.Mono.Add(shutdownInterval)
}
