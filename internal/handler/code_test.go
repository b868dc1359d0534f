package handler

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

type refusal kafka.ErrorCode

func (r refusal) Error() string              { return "refused" }
func (r refusal) ErrorCode() kafka.ErrorCode { return kafka.ErrorCode(r) }

// A client that is told NOT_CONTROLLER asks again for ever. Fails if codeOf does
// not look for the controller's own code.
func TestRefusedRequestsCarryTheControllersCode(t *testing.T) {
	if code := codeOf(fmt.Errorf("wrapped: %w", refusal(kafka.ErrPolicyViolation))); code != kafka.ErrPolicyViolation {
		t.Error(code)
	}
	if code := codeOf(errors.New("stopped")); code != kafka.ErrNotController {
		t.Error(code)
	}
}

type reason struct{ refusal }

func (reason) ErrorMessage() string { return "voter 3 has not yet told its directory id" }

// What the controller refuses as a whole, it refuses with a reason: a change of
// kraft.version, and what is too large for one batch. Fails if submit does not
// explain.
func TestRefusedRequestsSayWhy(t *testing.T) {
	opts := node(t)
	opts.Controller = refuser{fmt.Errorf("wrapped: %w", reason{refusal(kafka.ErrInvalidUpdateVersion)})}
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.SetVersion(2)
	s := serve(t, NewController(opts), kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)[4:])
	<-s.done
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	resp.SetVersion(2)
	if err := resp.ReadFrom(s.resp.Buf[9:]); err != nil { // behind length, correlation id and no tags
		t.Fatal(err)
	}
	if resp.ErrorCode != int16(kafka.ErrInvalidUpdateVersion) || resp.ErrorMessage == nil || *resp.ErrorMessage != (reason{}).ErrorMessage() {
		t.Errorf("%+v", resp)
	}
}

// refuser refuses everything.
type refuser struct{ err error }

func (r refuser) Submit(_ Caller, _ kmsg.Request, done func(kmsg.Response, error)) { done(nil, r.err) }
func (refuser) Quorum() Quorum                                                     { return Quorum{} }
