package network

import "time"

// paceBurst is for how long a rate may be saved up: Kafka measures over ten
// samples of a second (quota.window.num, quota.window.size.seconds).
const paceBurst = 10 * time.Second

// pace lets things happen at a rate. It belongs to the gate.
type pace struct {
	rate  float64 // a second; negative: any
	saved float64
	last  time.Duration
}

func newPace(rate int) *pace {
	p := &pace{}
	p.retune(rate)
	p.saved = p.most()
	return p
}

func (p *pace) most() float64 { return max(p.rate*paceBurst.Seconds(), min(p.rate, 1)) }

func (p *pace) retune(rate int) {
	if p.rate = float64(rate); rate == unlimited {
		p.rate = -1
	}
	p.saved = max(min(p.saved, p.most()), 0)
}

// wait tells how long it is until the next may happen; an hour if never.
func (p *pace) wait(now time.Duration) time.Duration {
	if p.rate < 0 {
		return 0
	}
	p.saved = min(p.saved+p.rate*(now-p.last).Seconds(), p.most())
	p.last = now
	switch {
	case p.saved >= 1:
		return 0
	case p.rate == 0:
		return time.Hour
	}
	return max(time.Duration((1-p.saved)/p.rate*float64(time.Second)), time.Millisecond)
}

func (p *pace) take() {
	if p.rate >= 0 {
		p.saved--
	}
}
