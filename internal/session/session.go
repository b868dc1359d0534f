package session

import (
	"time"

	"moldau/internal/kafka"
)

// Epochs of a fetch with special meanings (FetchMetadata).
const (
	InitialEpoch = 0  // a full fetch that asks for a new session
	FinalEpoch   = -1 // a full fetch that wants none
	NoSession    = 0  // session id of a fetch without one
)

// evictAfter is how long a session must be unused before any new one may take
// its place (KafkaBroker.MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS).
const evictAfter = 120 * time.Second

// Key identifies a partition in a session: by topic id where the client's
// version has ids, by name otherwise.
type Key struct {
	ID        kafka.TopicID
	Name      string
	Partition kafka.PartitionID
}

// Want is what a client asks of one partition.
type Want struct {
	Offset             kafka.Offset
	MaxBytes           int32
	CurrentLeaderEpoch kafka.Epoch
	LastFetchedEpoch   kafka.Epoch
	LogStart           kafka.Offset // of a follower
}

// Target is one partition to read for a fetch.
type Target struct {
	Key
	Want
	cached *partition
}

// Told is what the answer says of a partition, as far as it decides whether an
// incremental answer must include it.
type Told struct {
	HighWatermark kafka.Offset
	LogStart      kafka.Offset
	// Notable: there are records, an error, a diverging epoch or a preferred
	// replica.
	Notable bool
	Error   bool
	Records bool
}

// partition is what a session remembers of one partition.
type partition struct {
	Key
	Want
	hw       kafka.Offset // as told last
	logStart kafka.Offset // as told last

	next, prev *partition // ring in the order of service
	gone       bool
}

type fetchSession struct {
	id         int32
	epoch      int32 // that the next request must carry
	usesIDs    bool
	privileged bool // of a follower
	parts      map[Key]*partition
	ring       partition // sentinel
	size       int       // partitions when it was cached last
	created    kafka.Mono
	lastUsed   kafka.Mono
}

// Cache holds the sessions of one broker.
type Cache struct {
	slots    int
	random   func() uint32
	sessions map[int32]*fetchSession
}

// NewCache makes a cache of at most slots sessions
// (max.incremental.fetch.session.cache.slots). random draws session ids.
func NewCache(slots int, random func() uint32) *Cache {
	return &Cache{slots: slots, random: random, sessions: map[int32]*fetchSession{}}
}

// Len is the number of sessions.
func (c *Cache) Len() int { return len(c.sessions) }

// Request is the part of a Fetch request that concerns the session.
type Request struct {
	SessionID    int32
	SessionEpoch int32
	UsesIDs      bool // the version names topics by id
	Follower     bool
	Keys         []Key
	Wants        []Want // beside Keys
	Forget       []Key
	// Memory, if it has room, becomes the Targets of the fetch.
	Memory []Target
}

// Fetch is a fetch under way.
type Fetch struct {
	// Code, if set, is the whole answer: no partitions.
	Code kafka.ErrorCode
	// Targets are the partitions to read, in the order of service.
	Targets []Target
	// Incremental: only partitions for which Finish says so are answered.
	Incremental bool

	session *fetchSession
	create  bool
	req     Request
}

// Begin takes a request in: finds or prepares the session, applies the changes
// that the request makes to it, and lists what to read.
func (c *Cache) Begin(now kafka.Mono, req Request) Fetch {
	if req.SessionEpoch == InitialEpoch || req.SessionEpoch == FinalEpoch {
		return c.beginFull(req)
	}
	s, ok := c.sessions[req.SessionID]
	switch {
	case !ok:
		return Fetch{Code: kafka.ErrFetchSessionIDNotFound}
	case s.epoch != req.SessionEpoch:
		return Fetch{Code: kafka.ErrInvalidFetchSessionEpoch}
	case s.usesIDs != req.UsesIDs:
		return Fetch{Code: kafka.ErrFetchSessionTopicIDError}
	}
	s.update(req)
	if len(s.parts) == 0 {
		// Nothing left to follow: the session ends (FetchManager.newContext).
		delete(c.sessions, s.id)
		return Fetch{}
	}
	s.lastUsed, s.size = now, len(s.parts)
	s.epoch = nextEpoch(s.epoch)
	return Fetch{Incremental: true, session: s, Targets: s.targets(req.Memory[:0])}
}

func (c *Cache) beginFull(req Request) Fetch {
	if req.SessionID != NoSession {
		delete(c.sessions, req.SessionID)
	}
	f := Fetch{create: req.SessionEpoch == InitialEpoch, req: req, Targets: req.Memory[:0]}
	for i, k := range req.Keys {
		f.Targets = append(f.Targets, Target{Key: k, Want: req.Wants[i]})
	}
	return f
}

// nextEpoch counts from 1 and skips 0 when it wraps (FetchMetadata.nextEpoch).
func nextEpoch(e int32) int32 {
	if e == 1<<31-1 {
		return 1
	}
	return e + 1
}

func (s *fetchSession) update(req Request) {
	for i, k := range req.Keys {
		if p, ok := s.parts[k]; ok {
			p.Want = req.Wants[i]
		} else {
			s.add(k, req.Wants[i])
		}
	}
	for _, k := range req.Forget {
		if p, ok := s.parts[k]; ok {
			p.unlink()
			p.gone = true
			delete(s.parts, k)
		}
	}
}

func (s *fetchSession) add(k Key, w Want) *partition {
	p := &partition{Key: k, Want: w, hw: kafka.NoOffset, logStart: kafka.NoOffset}
	s.parts[k] = p
	s.pushBack(p)
	return p
}

func (s *fetchSession) pushBack(p *partition) {
	p.prev, p.next = s.ring.prev, &s.ring
	p.prev.next, s.ring.prev = p, p
}

func (p *partition) unlink() { p.prev.next, p.next.prev = p.next, p.prev }

func (s *fetchSession) targets(out []Target) []Target {
	for p := s.ring.next; p != &s.ring; p = p.next {
		out = append(out, Target{Key: p.Key, Want: p.Want, cached: p})
	}
	return out
}

// Finish settles the answer: told has one entry for each of f.Targets. It
// returns the session id to answer with, and for an incremental fetch which
// targets the answer includes; include is nil if it includes all. Partitions
// whose records are sent go to the end of the order, so that a limit on bytes
// starves nobody (KIP-74).
func (c *Cache) Finish(now kafka.Mono, f *Fetch, told []Told) (id int32, include []bool) {
	switch {
	case f.Code != 0:
		return NoSession, nil
	case f.Incremental:
		include = make([]bool, len(f.Targets))
		for i := range f.Targets {
			include[i] = f.session.tell(f.Targets[i].cached, told[i])
		}
		return f.session.id, include
	case f.create:
		return c.create(now, f, told), nil
	}
	return NoSession, nil
}

// tell decides whether the answer includes p (CachedPartition.maybeUpdateResponseData).
func (s *fetchSession) tell(p *partition, t Told) bool {
	must := t.Notable || p.hw != t.HighWatermark || p.logStart != t.LogStart
	p.hw, p.logStart = t.HighWatermark, t.LogStart
	if t.Error {
		p.hw = kafka.NoOffset // so that it is told again when the error goes away
	}
	if t.Records && !p.gone {
		p.unlink()
		s.pushBack(p)
	}
	return must
}

func (c *Cache) create(now kafka.Mono, f *Fetch, told []Told) int32 {
	if len(c.sessions) >= c.slots && !c.evict(now, f.req.Follower, len(f.Targets)) {
		return NoSession
	}
	s := &fetchSession{
		id: c.newID(), epoch: nextEpoch(InitialEpoch), usesIDs: f.req.UsesIDs, privileged: f.req.Follower,
		parts: make(map[Key]*partition, len(f.Targets)), created: now, lastUsed: now,
	}
	s.ring.next, s.ring.prev = &s.ring, &s.ring
	for i := range f.Targets {
		t := &f.Targets[i]
		p, ok := s.parts[t.Key]
		if !ok {
			p = s.add(t.Key, t.Want)
		}
		p.Want = t.Want
		s.tell(p, told[i])
	}
	s.size = len(s.parts)
	c.sessions[s.id] = s
	return s.id
}

func (c *Cache) newID() int32 {
	for {
		id := int32(c.random() & 0x7fffffff)
		if _, taken := c.sessions[id]; id != NoSession && !taken {
			return id
		}
	}
}

// evict makes room for a session of size partitions: it removes one that is
// stale, or else one that is less valuable — not a follower's if the new one is
// not, smaller — and not created recently, except that a follower may always
// take a consumer's place (FetchSessionCacheShard.tryEvict).
func (c *Cache) evict(now kafka.Mono, privileged bool, size int) bool {
	var oldest, least *fetchSession
	for _, s := range c.sessions {
		if oldest == nil || older(s, oldest) {
			oldest = s
		}
		settled := now.Sub(s.created) > evictAfter
		if evictable := !s.privileged && (settled || privileged) || s.privileged && privileged && settled; evictable {
			if least == nil || less(s, least) {
				least = s
			}
		}
	}
	switch {
	case oldest != nil && now.Sub(oldest.lastUsed) > evictAfter:
		delete(c.sessions, oldest.id)
	case least != nil && (privileged && !least.privileged || privileged == least.privileged && size >= least.size):
		delete(c.sessions, least.id)
	default:
		return false
	}
	return true
}

func older(a, b *fetchSession) bool {
	return a.lastUsed < b.lastUsed || a.lastUsed == b.lastUsed && a.id < b.id
}

func less(a, b *fetchSession) bool {
	if a.privileged != b.privileged {
		return b.privileged
	}
	return a.size < b.size || a.size == b.size && a.id < b.id
}
