package lifecycle

import (
	"time"

	"moldau/internal/kafka"
)

// Waits between attempts of a controller to register: after a refusal they
// double up to the maximum; after an acknowledgement the record must show in
// the log within the acknowledged wait (ControllerRegistrationManager).
const (
	registrationBackoff    = 100 * time.Millisecond
	registrationBackoffMax = 60 * time.Second
	registrationShows      = 2 * time.Second
)

// ControllerEvent is something that happened to a controller's registration.
type ControllerEvent interface{ controllerEvent() }

// LogMoved tells what the newest image says: whether its level knows
// registrations of controllers, and whether this incarnation has one.
type LogMoved struct{ Supported, Registered bool }

// ControllerAnswered is the active controller's answer to a registration.
type ControllerAnswered struct{ Code kafka.ErrorCode }

// ControllerDeadline: the time that Deadline told has come.
type ControllerDeadline struct{}

func (LogMoved) controllerEvent()           {}
func (ControllerAnswered) controllerEvent() {}
func (ControllerDeadline) controllerEvent() {}

// Controller keeps a controller registered with the active one (KIP-919): the
// log must show its incarnation, whoever leads. The zero value is ready.
type Controller struct {
	supported, registered bool
	inFlight              bool
	failures              int
	next                  kafka.Mono // not before it; 0 is at any time
}

// Deadline is when ControllerDeadline is due.
func (c *Controller) Deadline() kafka.Mono {
	if !c.wanted() || c.next == 0 {
		return kafka.Never
	}
	return c.next
}

func (c *Controller) wanted() bool { return c.supported && !c.registered && !c.inFlight }

// Step takes in one event and tells whether to send a registration.
func (c *Controller) Step(now kafka.Now, ev ControllerEvent) (register bool) {
	switch ev := ev.(type) {
	case LogMoved:
		c.supported = ev.Supported
		if ev.Registered {
			c.failures, c.next = 0, 0
		}
		c.registered = ev.Registered
	case ControllerAnswered:
		c.inFlight = false
		if ev.Code == 0 {
			c.failures, c.next = 0, now.Mono.Add(registrationShows)
		} else {
			c.next = now.Mono.Add(min(registrationBackoff<<min(c.failures, 20), registrationBackoffMax))
			c.failures++
		}
		return false
	}
	if !c.wanted() || c.next > now.Mono {
		return false
	}
	c.inFlight, c.next = true, 0
	return true
}
