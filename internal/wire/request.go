package wire

import (
	"encoding/binary"
	"fmt"
)

// Keys of the APIs that this package treats by itself.
const (
	KeyProduce     = 0
	KeyFetch       = 1
	KeyApiVersions = 18
)

// Header is the header of a request (RequestHeader v1, v2).
type Header struct {
	Key           int16
	Version       int16
	CorrelationID int32  // opaque: echoed, never used as a key
	ClientID      []byte // nil if null; bytes of the frame
}

// headerPrefix is the part that every request has: key, version, correlation id.
const headerPrefix = 8

// PeekKey gives the API key of a frame, or −1 if it is too short for one.
func PeekKey(frame []byte) int16 {
	if len(frame) < headerPrefix {
		return -1
	}
	return int16(binary.BigEndian.Uint16(frame))
}

// ParseHeader splits a frame (without its length) into header and body.
// flexible tells whether that version of that API has tagged fields in its
// header.
func ParseHeader(frame []byte, flexible func(key, version int16) bool) (h Header, body []byte, err error) {
	r := NewReader(frame)
	h = Header{Key: r.Int16(), Version: r.Int16(), CorrelationID: r.Int32()}
	if r.Err() != nil {
		return h, nil, r.Err()
	}
	h.ClientID = r.NullableString(false)
	if r.Err() == nil && flexible(h.Key, h.Version) {
		r.SkipTags()
	}
	if r.Err() != nil {
		return h, nil, fmt.Errorf("header of API %d version %d: %w", h.Key, h.Version, r.Err())
	}
	return h, r.Rest(), nil
}

// Peer is what is known of the other end of a connection. It does not change
// while the connection lives, except through its handler.
type Peer struct {
	Listener string // name of the listener it came through
	Address  string // remote ip:port
	Host     string // remote ip
	ID       uint64 // number of the connection, unique in the process
}

// Request is one request on its way. The network makes it, a handler answers
// it exactly once, by Reply, NoReply or Drop, from any goroutine. Frame and
// everything sliced from it may be used until then and not afterwards.
type Request struct {
	Frame []byte // header and body
	Peer  *Peer
	slot  Slot
}

// Slot is the place of a request's answer in the order of its connection.
type Slot interface {
	// Response gives memory for the answer, to be filled and given to Fill.
	Response() *Response
	// Fill sets the answer, nil for none, and gives the frame back. It may
	// block while the client is slow to read.
	Fill(*Response)
	// FreeFrame gives the frame back early, with the memory charged for it.
	FreeFrame()
	// Drop closes the connection because of err.
	Drop(err error)
	// Broken tells whether the connection has ended, or was reset by the other
	// end, which reading tells only behind what was received before.
	Broken() bool
	// OnGone asks to be told, once and from another goroutine, if the
	// connection ends before the slot is filled. It reports false if it has
	// ended already.
	OnGone(f func()) bool
}

// NewRequest is for the network.
func NewRequest(frame []byte, peer *Peer, slot Slot) Request {
	return Request{Frame: frame, Peer: peer, slot: slot}
}

// Response gives memory for the answer; Start it, then Reply.
func (r *Request) Response() *Response { return r.slot.Response() }

// OnGone asks to be told, once and from another goroutine, if the connection
// ends before the request is answered. It reports false if it has ended.
func (r *Request) OnGone(f func()) bool { return r.slot.OnGone(f) }

// Broken tells whether the connection has ended, or was reset by the other end:
// a request that has not begun should not begin then (Trap 13). A client that has
// only finished sending still waits for its answers.
func (r *Request) Broken() bool { return r.slot.Broken() }

// Reply answers the request. The response belongs to the network afterwards.
// It may block while the client is slow to read: call it on the goroutine that
// serves the request or on one made for it.
func (r *Request) Reply(resp *Response) { r.slot.Fill(resp) }

// FreeFrame gives the frame back before the answer, for requests that wait long:
// neither it nor what was sliced from it may be used any more.
func (r *Request) FreeFrame() {
	r.Frame = nil
	r.slot.FreeFrame()
}

// NoReply ends a request that takes no answer (Produce with acks=0).
func (r *Request) NoReply() { r.slot.Fill(nil) }

// Drop ends the request by closing its connection; err is logged.
func (r *Request) Drop(err error) { r.slot.Drop(err) }
