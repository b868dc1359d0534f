package handler

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/partition"
	"moldau/internal/session"
	"moldau/internal/wire"
)

// Controller is the way to the active controller.
type Controller interface {
	// Submit hands over a request that changes metadata; body is a kmsg
	// request. done gets the kmsg response, or an error if the request was not
	// decided: it may run on any goroutine and must not block.
	Submit(from Caller, body kmsg.Request, done func(kmsg.Response, error))
	// Quorum tells about the metadata quorum.
	Quorum() Quorum
}

// Quorum is what DescribeQuorum shows.
type Quorum struct {
	Leading       bool         // this node leads: it alone knows the replicas' positions
	Leader        kafka.NodeID // NoNode if not known
	Epoch         kafka.Epoch
	HighWatermark kafka.Offset
	Voters        []QuorumReplica
	Observers     []QuorumReplica
	Nodes         []QuorumNode
}

// QuorumReplica is a voter or observer as the leader sees it.
type QuorumReplica struct {
	ID                  kafka.NodeID
	Directory           kafka.DirectoryID
	EndOffset           kafka.Offset
	LastFetch, CaughtUp kafka.WallMs
}

// QuorumNode is where a voter can be reached.
type QuorumNode struct {
	ID        kafka.NodeID
	Endpoints []kafka.Endpoint
}

// ProducerIDs hands out producer ids.
type ProducerIDs interface {
	// Next gives an id that nobody else gets, or a retriable code.
	Next(done func(kafka.ProducerID, kafka.ErrorCode))
}

// Options join a Handler to the rest of the node.
type Options struct {
	Self        kafka.NodeID
	ClusterID   string
	Image       func() *metadata.Image
	Store       *partition.Store // nil on a controller's listener
	Controller  Controller
	Raft        Raft // nil: requests between replicas are refused
	ProducerIDs ProducerIDs
	Groups      Groups // nil on a controller's listener
	Static      config.Lookup
	StaticNames []string // settings of single listeners that Static has
	Now         func() kafka.Now
	Random      func() uint64
	Log         *slog.Logger
	LogLevel    *slog.LevelVar // of Log; nil if it cannot be changed

	FetchMaxBytes          int // fetch.max.bytes
	FetchSessionSlots      int // max.incremental.fetch.session.cache.slots
	AutoCreateTopics       bool
	OffsetsTopic           InternalTopic // how __consumer_offsets is created
	KeepTopics             bool          // delete.topic.enable is false
	PartitionsPerDescribe  int           // max.request.partition.size.limit
	SupportedFeatures      []Feature
	KRaftVersion           func() int16 // of the quorum; nil is 0
	UnstableFeatureEnabled bool

	// BrokerGone is told that the broker closed the connection over which it
	// last sent a heartbeat, the last one of that epoch; may be nil.
	BrokerGone func(broker kafka.NodeID, epoch kafka.BrokerEpoch)
}

// Feature is a range of feature levels that this node supports.
type Feature struct {
	Name     string
	Min, Max int16
}

// Handler serves the requests of one kind of listener.
type Handler struct {
	opts Options
	apis []api // by key

	sessionsMu sync.Mutex
	sessions   *session.Cache

	heartbeats heartbeats

	parked   atomic.Int64 // partitions of fetches that wait
	creating autoCreation
	scratch  chan *produceScratch
	fetches  chan *fetching
}

// api is one line of a dispatch table.
type api struct {
	key      int16
	min, max int16 // versions that are accepted
	listed   int16 // lowest version that ApiVersions tells; differs for Produce
	flexible int16 // first version whose header has tagged fields
	serve    func(*Handler, *call)
}

// call is one request on its way through a Handler.
type call struct {
	*wire.Request
	wire.Header
	api  *api
	body []byte
	// amend completes the controller's answer; nil if there is nothing to add.
	amend func(kmsg.Response)
	// in is the envelope in which the request came; nil if it came by itself.
	in *embedded
}

// keptScratch bounds the memory kept for decoding and validating.
const keptScratch = 8

func newHandler(opts Options, table []api) *Handler {
	h := &Handler{
		opts: opts, scratch: make(chan *produceScratch, keptScratch), fetches: make(chan *fetching, keptScratch),
		sessions: session.NewCache(opts.FetchSessionSlots, func() uint32 { return uint32(opts.Random()) }),
	}
	for _, a := range table {
		a.flexible = firstFlexible(a.key)
		for int(a.key) >= len(h.apis) {
			h.apis = append(h.apis, api{key: -1})
		}
		h.apis[a.key] = a
	}
	return h
}

// firstFlexible asks the schemas, never a list of our own (HC-155).
func firstFlexible(key int16) int16 {
	r := kmsg.RequestForKey(key)
	for v := int16(0); v <= r.MaxVersion(); v++ {
		if r.SetVersion(v); r.IsFlexible() {
			return v
		}
	}
	return r.MaxVersion() + 1
}

func (h *Handler) api(key int16) *api {
	if key < 0 || int(key) >= len(h.apis) || h.apis[key].key != key {
		return nil
	}
	return &h.apis[key]
}

// Serve implements network.Handler.
func (h *Handler) Serve(r *wire.Request) {
	h.serve(&call{Request: r})
}

func (h *Handler) serve(c *call) {
	r := c.Request
	var err error
	c.Header, c.body, err = wire.ParseHeader(r.Frame, func(key, version int16) bool {
		a := h.api(key)
		// A version of ApiVersions beyond ours has a body that must not be read.
		return a != nil && version >= a.flexible && version <= a.max
	})
	if err != nil {
		r.Drop(err)
		return
	}
	c.api = h.api(c.Key)
	switch {
	case c.api == nil:
		r.Drop(fmt.Errorf("API %d is not offered on listener %s", c.Key, r.Peer.Listener))
	case c.Version < c.api.min || c.Version > c.api.max:
		if c.Key == wire.KeyApiVersions {
			h.unknownApiVersions(c)
			return
		}
		r.Drop(fmt.Errorf("%s version %d is not offered, only %d to %d", kmsg.NameForKey(c.Key), c.Version, c.api.min, c.api.max))
	default:
		c.api.serve(h, c)
	}
}

// start begins the answer.
func (c *call) start() *wire.Response {
	resp := c.Response()
	// The header of ApiVersions answers never has tags: a client that does not
	// know the server's versions must be able to read it.
	resp.Start(c.CorrelationID, c.Version >= c.api.flexible && c.Key != wire.KeyApiVersions)
	return resp
}

// decode reads the body into a kmsg request; it drops the connection and
// reports false if that fails.
func (c *call) decode(req kmsg.Request) bool {
	req.SetVersion(c.Version)
	err := req.ReadFrom(c.body)
	if err == nil {
		err = checkStrings(c.body, req)
	}
	if err != nil {
		c.Drop(fmt.Errorf("%w: %s version %d: %w", wire.ErrMalformed, kmsg.NameForKey(c.Key), c.Version, err))
		return false
	}
	return true
}

// reply sends a kmsg response.
func (c *call) reply(resp kmsg.Response) {
	resp.SetVersion(c.Version)
	out := c.start()
	out.Buf = resp.AppendTo(out.Buf)
	c.Reply(out)
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
