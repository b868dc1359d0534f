package handler

import (
	"errors"
	"fmt"
	"testing"

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
