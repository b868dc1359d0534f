package raft

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"moldau/internal/kafka"
)

// caughtUpWithin is how recently an observer must have fetched to become a
// voter (LeaderState.isReplicaCaughtUp).
const caughtUpWithin = time.Hour

// change is one AddVoter or RemoveVoter in progress. While it lasts, and while
// a VotersRecord is not committed, no other begins (HC-025, HC-026).
type change struct {
	token    uint64
	answered bool
	// add is the new voter; its range of kraft.version is being asked for until
	// offset is set. nil for a removal.
	add      *Voter
	early    bool // answer when appended
	offset   kafka.Offset
	deadline kafka.Mono
}

// handleAddVoter begins to make an observer a voter (AddVoterHandler): the
// future voter is asked what it supports before anything is written.
func (c *Core) handleAddVoter(token uint64, r *AddVoterRequest) {
	fail := func(code kafka.ErrorCode, format string, a ...any) {
		c.reply(token, &AddVoterResponse{Error: code, Message: fmt.Sprintf(format, a...)})
	}
	if code, text := c.leaderOnly(r.ClusterID); code != kafka.NoError {
		fail(code, "%s", text)
		return
	}
	if r.Voter.Key.ID < 0 || r.Voter.Key.Dir == (kafka.DirectoryID{}) {
		fail(kafka.ErrInvalidRequest, "Add voter request didn't include a valid voter")
		return
	}
	if !c.hasDefaultListener(r.Voter.Endpoints) {
		fail(kafka.ErrInvalidRequest, "Add voter request didn't include an endpoint for the default listener %s", c.defaultListener())
		return
	}
	voters, code, text := c.changeable("adding")
	if code != kafka.NoError {
		fail(code, "%s", text)
		return
	}
	if _, known := voters.Find(r.Voter.Key.ID); known {
		fail(kafka.ErrDuplicateVoter, "The voter id for %s is already part of the set of voters %s.", r.Voter.Key, voters)
		return
	}
	v := r.Voter
	if !c.requestAt(v.Key.ID, v.Endpoints, &FeaturesRequest{}) {
		fail(kafka.ErrRequestTimedOut, "New voter %s is not ready to receive requests", v.Key)
		return
	}
	c.lead.change = &change{
		token: token, add: &v, early: r.AckEarly, offset: kafka.NoOffset,
		deadline: c.now.Mono.Add(c.opts.RequestTimeout),
	}
}

// handleRemoveVoter writes the set without the voter (RemoveVoterHandler).
func (c *Core) handleRemoveVoter(token uint64, r *RemoveVoterRequest) {
	fail := func(code kafka.ErrorCode, format string, a ...any) {
		c.reply(token, &RemoveVoterResponse{Error: code, Message: fmt.Sprintf(format, a...)})
	}
	if code, text := c.leaderOnly(r.ClusterID); code != kafka.NoError {
		fail(code, "%s", text)
		return
	}
	if r.Voter.ID < 0 || r.Voter.Dir == (kafka.DirectoryID{}) {
		fail(kafka.ErrInvalidRequest, "Remove voter request didn't include a valid voter")
		return
	}
	voters, code, text := c.changeable("removing")
	if code != kafka.NoError {
		fail(code, "%s", text)
		return
	}
	rest, ok := voters.without(r.Voter)
	if !ok && voters.Len() == 1 && voters.Contains(r.Voter) {
		fail(kafka.ErrVoterNotFound, "Cannot remove voter %s: it is the only one", r.Voter)
		return
	}
	if !ok {
		fail(kafka.ErrVoterNotFound, "Cannot remove voter %s from the set of voters %s", r.Voter, voters)
		return
	}
	c.lead.change = &change{token: token, offset: c.appendVoters(rest, nil), deadline: c.now.Mono.Add(c.opts.RequestTimeout)}
	c.advance()
}

// handleUpdateVoter takes a voter's own word on its endpoints and range of
// kraft.version (UpdateVoterHandler). Under kraft.version 0 it is remembered
// for the upgrade only.
func (c *Core) handleUpdateVoter(r *UpdateVoterRequest) *UpdateVoterResponse {
	answer := func(code kafka.ErrorCode) *UpdateVoterResponse {
		l := c.leadership(kafka.NoError)
		l.TopError = code
		return &UpdateVoterResponse{l}
	}
	switch code, _ := c.leaderOnly(r.ClusterID); {
	case code == kafka.ErrInconsistentClusterID:
		return answer(code)
	case r.CurrentLeaderEpoch < c.election.Epoch:
		return answer(kafka.ErrFencedLeaderEpoch)
	case r.CurrentLeaderEpoch > c.election.Epoch:
		return answer(kafka.ErrUnknownLeaderEpoch)
	case code != kafka.NoError:
		return answer(code)
	}
	v, kraft := r.Voter, c.KRaftVersion()
	if v.Key.ID < 0 || v.Key.Dir == (kafka.DirectoryID{}) || !c.hasDefaultListener(v.Endpoints) ||
		v.MinKRaft < 0 || v.MaxKRaft < v.MinKRaft || v.Key.ID == c.opts.Self.ID {
		return answer(kafka.ErrInvalidRequest)
	}
	if c.lead.change != nil || !c.lead.led {
		return answer(kafka.ErrRequestTimedOut)
	}
	if kraft == 0 {
		if v.MinKRaft > 0 {
			return answer(kafka.ErrInvalidRequest)
		}
		if _, known := c.voters().Find(v.Key.ID); !known {
			return answer(kafka.ErrVoterNotFound)
		}
		c.lead.volatile[v.Key.ID] = v
		c.contact(v.Key)
		return answer(kafka.NoError)
	}
	voters, code, _ := c.changeable("updating")
	switch {
	case code != kafka.NoError:
		return answer(code)
	case v.MinKRaft > kraft || v.MaxKRaft < kraft:
		return answer(kafka.ErrInvalidRequest)
	case !voters.Contains(v.Key):
		return answer(kafka.ErrVoterNotFound)
	}
	c.contact(v.Key)
	if set := voters.with(v); !set.equal(voters) {
		c.appendVoters(set, nil)
	}
	return answer(kafka.NoError)
}

// handleUpgrade raises kraft.version from 0 to 1: with it the voters, their
// directories and ranges, which they have told this leader, go into the log
// (LeaderState.maybeAppendUpgradedKRaftVersion).
func (c *Core) handleUpgrade(r *UpgradeRequest) *UpgradeResponse {
	fail := func(code kafka.ErrorCode, format string, a ...any) *UpgradeResponse {
		return &UpgradeResponse{Error: code, Message: fmt.Sprintf(format, a...)}
	}
	have := c.KRaftVersion()
	invalid := fmt.Sprintf("Invalid upgrade of kraft.version from version %d to %d", have, r.Level)
	switch {
	case c.role != Leader || !c.lead.led:
		return fail(kafka.ErrNotController, "this node is not the active controller")
	case r.Level == have:
		return &UpgradeResponse{}
	case r.Level < have:
		return fail(kafka.ErrInvalidUpdateVersion, "%s because the new version is a downgrade", invalid)
	case r.Level > 1:
		return fail(kafka.ErrInvalidUpdateVersion, "%s: it is not known", invalid)
	}
	var l []Voter
	for _, v := range c.voters().All() {
		told, ok := c.lead.volatile[v.Key.ID]
		if !ok {
			return fail(kafka.ErrInvalidUpdateVersion, "%s because voter %d has not yet told its directory id and what it supports", invalid, v.Key.ID)
		}
		if told.MaxKRaft < r.Level {
			return fail(kafka.ErrInvalidUpdateVersion, "%s because not all of the voters support it: voter %d supports up to %d", invalid, v.Key.ID, told.MaxKRaft)
		}
		l = append(l, told)
	}
	set, err := NewVoterSet(l...)
	if err != nil {
		return fail(kafka.ErrInvalidUpdateVersion, "%s: %s", invalid, err)
	}
	if !r.ValidateOnly {
		level := r.Level
		c.appendVoters(set, &level)
	}
	return &UpgradeResponse{}
}

// leaderOnly checks what requests have in common that only a leader takes.
func (c *Core) leaderOnly(cluster string) (kafka.ErrorCode, string) {
	switch {
	case !c.clusterMatches(cluster):
		return kafka.ErrInconsistentClusterID, fmt.Sprintf("The given id %q doesn't match the cluster id %q", cluster, c.opts.ClusterID)
	case c.role != Leader: // who leaves the quorum does not lead any more
		return kafka.ErrNotLeaderForPartition, ""
	}
	return kafka.NoError, ""
}

// changeable gives the voter set if a change of it may begin.
func (c *Core) changeable(doing string) (VoterSet, kafka.ErrorCode, string) {
	voters, at := c.history.votersAt(c.log.end)
	kraft := c.KRaftVersion()
	switch {
	case c.lead.change != nil:
		return voters, kafka.ErrRequestTimedOut, "Request timed out waiting for leader to handle previous voter change request"
	case !c.lead.led:
		return voters, kafka.ErrRequestTimedOut, "Request timed out waiting for leader to establish HWM and fence previous voter changes"
	case kraft < 1:
		return voters, kafka.ErrUnsupportedVersion, fmt.Sprintf("Cluster doesn't support %s voter because the kraft.version feature is %d", doing, kraft)
	case at >= c.hw && !mutantParallelChanges:
		return voters, kafka.ErrRequestTimedOut, fmt.Sprintf("Request timed out waiting for voters to commit the latest voter change at %d with HWM %d", at, c.hw)
	}
	return voters, kafka.NoError, ""
}

func (c *Core) defaultListener() string {
	if len(c.opts.Endpoints) == 0 {
		return ""
	}
	return c.opts.Endpoints[0].Name
}

func (c *Core) hasDefaultListener(l []kafka.Endpoint) bool {
	want := c.defaultListener()
	return want == "" || slices.ContainsFunc(l, func(e kafka.Endpoint) bool { return e.Name == want })
}

// appendVoters writes a voter set, which acts at once (HC-024), and gives the
// offset of its record.
func (c *Core) appendVoters(set VoterSet, kraft *int16) kafka.Offset {
	if c.onlyVoter() {
		// Nobody else had to fetch so far: the time to hear from a majority
		// begins now.
		c.lead.quorum, c.lead.fetched = c.quorumTimeout(), c.lead.fetched[:0]
	}
	base := c.log.end
	at := base
	if kraft != nil {
		c.history.add(Control{Offset: base, KRaft: *kraft})
		at++
		// Known without directory, they would be taken for observers. Their next
		// fetch tells where they are under their full key.
		maps.DeleteFunc(c.lead.replicas, func(k ReplicaKey, _ *progress) bool { return k.Dir == kafka.DirectoryID{} })
	}
	c.history.add(Control{Offset: at, Voters: &set})
	// What was on its way to a former voter must not keep its successor waiting.
	c.peers = slices.DeleteFunc(c.peers, func(p peer) bool {
		_, voter := set.Find(p.id)
		return p.id >= 0 && !voter
	})
	c.log.append(base, at, c.election.Epoch)
	c.out.VotersChange = &VotersChange{Base: base, Epoch: c.election.Epoch, KRaft: kraft, Voters: set}
	return at
}

// featuresResponse goes on with adding a voter that has told what it supports.
func (c *Core) featuresResponse(from kafka.NodeID, r *FeaturesResponse) bool {
	if c.role != Leader || c.lead.change == nil {
		return true
	}
	ch := c.lead.change
	if ch.add == nil || ch.add.Key.ID != from || ch.offset != kafka.NoOffset {
		return true
	}
	kraft := c.KRaftVersion()
	switch p := c.lead.replicas[ch.add.Key]; {
	case r.Error != kafka.NoError:
		c.endChange(kafka.ErrRequestTimedOut, fmt.Sprintf("Aborted add voter operation for since API_VERSIONS returned an error %s", r.Error))
		return false
	case r.MinKRaft > kraft || r.MaxKRaft < kraft:
		c.endChange(kafka.ErrInvalidRequest, fmt.Sprintf("Aborted add voter operation for %s since the kraft.version range (min: %d, max: %d) doesn't support the finalized version %d",
			ch.add.Key, r.MinKRaft, r.MaxKRaft, kraft))
		return true
	case p == nil || p.caughtUp == kafka.NoTimestamp || c.now.Mono.Sub(p.lastFetch.Mono) >= caughtUpWithin:
		c.endChange(kafka.ErrRequestTimedOut, fmt.Sprintf("Aborted add voter operation for %s since it is lagging behind", ch.add.Key))
		return true
	}
	v := *ch.add
	v.MinKRaft, v.MaxKRaft = r.MinKRaft, r.MaxKRaft
	set, err := NewVoterSet(append(slices.Clone(c.voters().All()), v)...)
	if err != nil {
		panic(err) // handleAddVoter has seen that the id is free, and no set was written since
	}
	ch.offset = c.appendVoters(set, nil)
	if ch.early {
		c.answerChange(ch, kafka.NoError, "")
	}
	c.advance()
	return true
}

// featuresFailed gives up adding a voter that cannot be reached.
func (c *Core) featuresFailed(id kafka.NodeID) {
	if c.role != Leader || c.lead.change == nil {
		return
	}
	if ch := c.lead.change; ch.add != nil && ch.add.Key.ID == id && ch.offset == kafka.NoOffset {
		c.endChange(kafka.ErrRequestTimedOut, fmt.Sprintf("New voter %s cannot be reached at %v", ch.add.Key, ch.add.Endpoints))
	}
}

// changeCommitted ends a change whose record is committed. A leader that has
// removed itself led until now, and resigns (HC-028).
func (c *Core) changeCommitted() {
	if ch := c.lead.change; ch != nil && ch.offset != kafka.NoOffset && ch.offset < c.hw {
		c.endChange(kafka.NoError, "")
	}
	if voters, at := c.history.votersAt(c.log.end); at < c.hw && !voters.Contains(c.opts.Self) && c.lead.led {
		c.becomeResigned()
	}
}

// endChange answers who waits for the change and forgets it. A record that has
// been written stays.
func (c *Core) endChange(code kafka.ErrorCode, text string) {
	c.answerChange(c.lead.change, code, text)
	c.lead.change = nil
}

func (c *Core) answerChange(ch *change, code kafka.ErrorCode, text string) {
	if ch.answered {
		return
	}
	ch.answered = true
	if ch.add != nil {
		c.reply(ch.token, &AddVoterResponse{Error: code, Message: text})
		return
	}
	c.reply(ch.token, &RemoveVoterResponse{Error: code, Message: text})
}
