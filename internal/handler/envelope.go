package handler

// Envelope (KIP-590): a broker forwards what a client asked of it to the active
// controller, with the client's principal and address, and gives the client
// the answer that comes back inside the envelope.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/wire"
)

// Caller is who asked for something. The controller is told when the request
// is forwarded to it.
type Caller struct {
	ClientID  *string
	Host      string // IP address
	Principal Principal
}

// Principal is an authenticated user.
type Principal struct {
	Type, Name         string
	TokenAuthenticated bool // by a delegation token
}

// Anonymous is everybody on a listener without authentication.
func Anonymous() Principal { return Principal{Type: "User", Name: "ANONYMOUS"} }

// forwardable are the APIs that may come in an envelope (ApiKeys.forwardable).
func forwardable(key int16) bool {
	return slices.Contains([]int16{19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 67, 80, 81, 94}, key)
}

// principalVersion is the version of DefaultPrincipalData.
const principalVersion = 0

func (p Principal) encode() []byte {
	b := binary.BigEndian.AppendUint16(nil, principalVersion)
	for _, s := range []string{p.Type, p.Name} {
		b = binary.AppendUvarint(b, uint64(len(s))+1)
		b = append(b, s...)
	}
	if p.TokenAuthenticated {
		return append(b, 1, 0)
	}
	return append(b, 0, 0)
}

var errPrincipal = errors.New("not a principal")

func decodePrincipal(b []byte) (p Principal, err error) {
	if len(b) < 2 || binary.BigEndian.Uint16(b) != principalVersion {
		return p, fmt.Errorf("%w: of an unknown version", errPrincipal)
	}
	r := wire.NewReader(b[2:])
	p.Type, p.Name = string(r.String(true)), string(r.String(true))
	p.TokenAuthenticated = r.Int8() != 0
	r.SkipTags()
	if r.Err() != nil || len(r.Rest()) != 0 || p.Type == "" {
		return p, errPrincipal
	}
	return p, nil
}

// Wrap puts a request into an envelope.
func Wrap(req kmsg.Request, from Caller) *kmsg.EnvelopeRequest {
	var opts []kmsg.RequestFormatterOpt
	if from.ClientID != nil {
		opts = append(opts, kmsg.FormatterClientID(*from.ClientID))
	}
	e := kmsg.NewPtrEnvelopeRequest()
	e.RequestData = kmsg.NewRequestFormatter(opts...).AppendRequest(nil, req, 0)[4:]
	e.RequestPrincipal = from.Principal.encode()
	if a, err := netip.ParseAddr(from.Host); err == nil {
		e.ClientHostAddress = a.Unmap().WithZone("").AsSlice()
	}
	return e
}

// EnvelopeError is an envelope that came back without an answer.
type EnvelopeError struct{ Code kafka.ErrorCode }

// Error tells the code.
func (e *EnvelopeError) Error() string {
	return "the controller refused an envelope: " + e.Code.String()
}

// Unwrap takes the answer to req out of an envelope.
func Unwrap(e *kmsg.EnvelopeResponse, req kmsg.Request) (kmsg.Response, error) {
	if e.ErrorCode != 0 {
		return nil, &EnvelopeError{kafka.ErrorCode(e.ErrorCode)}
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	r := wire.NewReader(e.ResponseData)
	r.Int32() // correlation id: the connection's answers are matched already
	if resp.IsFlexible() {
		r.SkipTags()
	}
	err := r.Err()
	if err == nil {
		err = resp.ReadFrom(r.Rest())
	}
	if err != nil {
		return nil, fmt.Errorf("answer of %s version %d in an envelope: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp, nil
}

// envelope serves an envelope: the request in it is served as if it had come by
// itself, and its answer goes back in the envelope's.
func (h *Handler) envelope(c *call) {
	req := kmsg.NewPtrEnvelopeRequest()
	if !c.decode(req) {
		return
	}
	in := &embedded{outer: *c}
	// The frame lives as long as the outer request: in refers into it.
	if _, err := decodePrincipal(req.RequestPrincipal); err != nil {
		in.fail(kafka.ErrPrincipalDeserializationFailure)
		return
	}
	address, ok := netip.AddrFromSlice(req.ClientHostAddress)
	key := wire.PeekKey(req.RequestData)
	if !ok || key >= 0 && !forwardable(key) {
		in.fail(kafka.ErrInvalidRequest)
		return
	}
	in.peer = *c.Peer
	in.peer.Host, in.peer.Address = address.String(), address.String()
	in.req = wire.NewRequest(req.RequestData, &in.peer, in)
	h.serve(&call{Request: &in.req, in: in})
}

// embedded is the slot of a request that came in an envelope.
type embedded struct {
	outer call
	peer  wire.Peer
	req   wire.Request
	resp  wire.Response
}

// Response implements wire.Slot.
func (e *embedded) Response() *wire.Response { return &e.resp }

// Fill implements wire.Slot.
func (e *embedded) Fill(resp *wire.Response) {
	out := kmsg.NewPtrEnvelopeResponse()
	if resp != nil {
		out.ResponseData = resp.Buf[4:] // without the length of a frame
	}
	e.outer.reply(out)
}

// FreeFrame implements wire.Slot: the frame is the envelope's.
func (e *embedded) FreeFrame() {}

// Broken implements wire.Slot: of the broker's connection.
func (e *embedded) Broken() bool { return e.outer.Broken() }

// Drop implements wire.Slot: what cannot be read closes no connection, for that
// belongs to the broker; it answers its client by closing that one's.
func (e *embedded) Drop(error) { e.fail(kafka.ErrUnsupportedVersion) }

// OnGone implements wire.Slot.
func (e *embedded) OnGone(f func()) bool { return e.outer.OnGone(f) }

// fail answers the envelope itself.
func (e *embedded) fail(code kafka.ErrorCode) {
	out := kmsg.NewPtrEnvelopeResponse()
	out.ErrorCode = int16(code)
	e.outer.reply(out)
}

// caller tells who sent the request.
func (c *call) caller() Caller {
	from := Caller{Host: c.Peer.Host, Principal: Anonymous()}
	if c.ClientID != nil {
		id := string(c.ClientID)
		from.ClientID = &id
	}
	return from
}
