package handler

// DescribeUserScramCredentials: who has which credentials, never the secrets
// (KIP-554).

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

func (h *Handler) describeSCRAM(c *call) {
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	if !c.decode(req) {
		return
	}
	credentials := map[string][]kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{}
	var users []string
	h.opts.Image().EachSCRAM(func(u *record.UserScramCredential) bool {
		i := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
		i.Mechanism, i.Iterations = u.Mechanism, u.Iterations
		if credentials[u.Name] == nil {
			users = append(users, u.Name)
		}
		credentials[u.Name] = append(credentials[u.Name], i)
		return true
	})
	slices.Sort(users)
	asked := map[string]int{}
	if len(req.Users) > 0 {
		users = users[:0]
	}
	for _, u := range req.Users {
		if asked[u.Name]++; asked[u.Name] == 1 {
			users = append(users, u.Name)
		}
	}
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	for _, name := range users {
		r := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		r.User, r.CredentialInfos = name, credentials[name]
		switch {
		case asked[name] > 1:
			r.ErrorCode, r.CredentialInfos = int16(kafka.ErrDuplicateResource), nil
			r.ErrorMessage = text("Cannot describe SCRAM credentials for the same user twice in a single request: " + name)
		case len(r.CredentialInfos) == 0:
			r.ErrorCode = int16(kafka.ErrResourceNotFound)
			r.ErrorMessage = text("Attempt to describe a user credential that does not exist: " + name)
		}
		resp.Results = append(resp.Results, r)
	}
	c.reply(resp)
}

// describeTokens answers DescribeDelegationToken: over a listener without
// authentication nobody may ask for tokens, and there is no other yet.
func (h *Handler) describeTokens(c *call) {
	req := kmsg.NewPtrDescribeDelegationTokenRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeDelegationTokenResponse()
	resp.ErrorCode = int16(kafka.ErrDelegationTokenRequestNotAllowed)
	c.reply(resp)
}
