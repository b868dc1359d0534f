package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/raftwire"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

func newQuorum() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quorum",
		Short: "See and change who decides on the metadata",
		Long: `Sees and changes the metadata quorum of a cluster, moldau's or Apache Kafka's.

Give a broker's address (--bootstrap-server), or a controller's if no broker
can be reached (--bootstrap-controller).`,
		Example: `  moldau quorum describe
  moldau quorum add --config controller.properties
  moldau quorum remove --id 3
  moldau quorum handover --bootstrap-controller localhost:9093`,
		Args: cobra.NoArgs,
		RunE: help,
	}
	cmd.AddCommand(newQuorumDescribe(), newQuorumAdd(), newQuorumRemove(), newQuorumHandover())
	return cmd
}

// quorumRequest asks about the metadata log.
func quorumRequest() *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t, p := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	t.Topic, t.Partitions = kafka.ClusterMetadataTopic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// quorumState is a DescribeQuorum answer taken apart.
type quorumState struct {
	kmsg.DescribeQuorumResponseTopicPartition
	nodes []kmsg.DescribeQuorumResponseNode
}

func (c *clusterClient) quorum() (quorumState, error) {
	var s quorumState
	resp, err := c.ask(quorumRequest())
	if err != nil {
		return s, err
	}
	r := resp.(*kmsg.DescribeQuorumResponse)
	if r.ErrorCode != 0 {
		return s, codeError("DescribeQuorum", r.ErrorCode, r.ErrorMessage)
	}
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return s, errors.New("DescribeQuorum: the answer is not about the metadata log")
	}
	s.DescribeQuorumResponseTopicPartition, s.nodes = r.Topics[0].Partitions[0], r.Nodes
	if s.ErrorCode != 0 {
		return s, codeError("DescribeQuorum", s.ErrorCode, s.ErrorMessage)
	}
	return s, nil
}

// endpoint is where a voter is, "" if that was not told.
func (s *quorumState) endpoint(id int32) string {
	for _, n := range s.nodes {
		if n.NodeID == id && len(n.Listeners) > 0 {
			return net.JoinHostPort(n.Listeners[0].Host, strconv.Itoa(int(n.Listeners[0].Port)))
		}
	}
	return ""
}

func newQuorumDescribe() *cobra.Command {
	cmd := &cobra.Command{Use: "describe", Short: "Show leader, voters, observers and how far each is", Args: cobra.NoArgs}
	f := addClusterFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.with(func(c *clusterClient) error {
			s, err := c.quorum()
			if err != nil {
				return err
			}
			return s.print(cmd.OutOrStdout(), time.Now())
		})
	}
	return cmd
}

func (s *quorumState) print(w io.Writer, now time.Time) error {
	fmt.Fprintf(w, "leader %d, epoch %d, high watermark %d\n\n", s.LeaderID, s.LeaderEpoch, s.HighWatermark)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tROLE\tEND OFFSET\tLAG\tLAST FETCH\tCAUGHT UP\tDIRECTORY\tENDPOINT")
	end := int64(0)
	for _, v := range s.CurrentVoters {
		end = max(end, v.LogEndOffset)
	}
	ago := func(ms int64) string {
		if ms < 0 {
			return "-"
		}
		return max(now.Sub(time.UnixMilli(ms)), 0).Round(time.Millisecond).String() + " ago"
	}
	row := func(r kmsg.DescribeQuorumResponseTopicPartitionReplicaState, role string) {
		lag := "-"
		if r.LogEndOffset >= 0 {
			lag = strconv.FormatInt(max(end-r.LogEndOffset, 0), 10)
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", r.ReplicaID, role, r.LogEndOffset, lag,
			ago(r.LastFetchTimestamp), ago(r.LastCaughtUpTimestamp), kafka.DirectoryID(r.ReplicaDirectoryID), cmp.Or(s.endpoint(r.ReplicaID), "-"))
	}
	for _, v := range s.CurrentVoters {
		role := "voter"
		if v.ReplicaID == s.LeaderID {
			role = "leader"
		}
		row(v, role)
	}
	for _, o := range s.Observers {
		row(o, "observer")
	}
	return t.Flush()
}

func newQuorumAdd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "add", Short: "Make a running controller a voter", Args: cobra.NoArgs,
		Long: `Makes a controller, which runs and has caught up, a voter. Run it where the
controller's configuration and its metadata directory are.`,
	}
	f := addClusterFlags(cmd)
	cmd.Flags().StringVarP(&file, "config", "c", "", "the controller's server.properties (required)")
	_ = cmd.MarkFlagRequired("config")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig(file, nil)
		if err != nil {
			return err
		}
		req, err := addVoterRequest(c)
		if err != nil {
			return err
		}
		return f.with(func(cl *clusterClient) error {
			resp, err := cl.ask(req)
			if err != nil {
				return err
			}
			r := resp.(*kmsg.AddRaftVoterResponse)
			if r.ErrorCode != 0 {
				return codeError("AddRaftVoter", r.ErrorCode, r.ErrorMessage)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "node %d with directory %s is a voter now\n", req.VoterID, kafka.DirectoryID(req.VoterDirectoryID))
			return err
		})
	}
	return cmd
}

// addVoterRequest takes the voter's id and endpoints from its configuration, its
// directory from meta.properties (MetadataQuorumCommand.handleAddController).
func addVoterRequest(c *config.Server) (*kmsg.AddRaftVoterRequest, error) {
	if !c.Controller {
		return nil, errors.New("the configuration is not a controller's: process.roles does not name controller")
	}
	m, err := logdir.ReadMetaProperties(vfs.OS{}, c.MetadataLogDir)
	if err != nil {
		return nil, fmt.Errorf("directory id of the controller: %w", err)
	}
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.ClusterID, req.TimeoutMillis = &m.ClusterID, int32(clientTimeout/time.Millisecond)
	req.VoterID, req.VoterDirectoryID, req.AckWhenCommitted = int32(c.NodeID), m.DirectoryID, true
	for _, name := range c.ControllerListeners {
		i := slices.IndexFunc(c.Advertised, func(l config.Listener) bool { return l.Name == name })
		if i < 0 {
			continue
		}
		l := kmsg.NewAddRaftVoterRequestListener()
		l.Name, l.Host, l.Port = name, cmp.Or(c.Advertised[i].Host, "localhost"), c.Advertised[i].Port
		req.Listeners = append(req.Listeners, l)
	}
	return req, nil
}

func newQuorumRemove() *cobra.Command {
	var id int32
	var dir string
	cmd := &cobra.Command{Use: "remove", Short: "Remove a voter", Args: cobra.NoArgs}
	f := addClusterFlags(cmd)
	cmd.Flags().Int32Var(&id, "id", -1, "node id of the voter (required)")
	cmd.Flags().StringVar(&dir, "directory", "", "its directory id; looked up if not given")
	_ = cmd.MarkFlagRequired("id")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.with(func(c *clusterClient) error {
			req := kmsg.NewPtrRemoveRaftVoterRequest()
			req.VoterID = id
			if err := c.directoryOf(id, dir, &req.VoterDirectoryID); err != nil {
				return err
			}
			resp, err := c.ask(req)
			if err != nil {
				return err
			}
			r := resp.(*kmsg.RemoveRaftVoterResponse)
			if r.ErrorCode != 0 {
				return codeError("RemoveRaftVoter", r.ErrorCode, r.ErrorMessage)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "node %d with directory %s is no voter any more\n", id, kafka.DirectoryID(req.VoterDirectoryID))
			return err
		})
	}
	return cmd
}

// directoryOf finds the directory id of a voter, unless it was given as text.
func (c *clusterClient) directoryOf(id int32, given string, dir *[16]byte) error {
	if given != "" {
		u, err := kafka.ParseUUID(given)
		*dir = u
		return err
	}
	s, err := c.quorum()
	if err != nil {
		return err
	}
	for _, v := range s.CurrentVoters {
		if v.ReplicaID == id {
			*dir = v.ReplicaDirectoryID
			return nil
		}
	}
	return fmt.Errorf("node %d is not a voter; the voters are %s", id, voterIDs(&s))
}

func voterIDs(s *quorumState) string {
	var ids []string
	for _, v := range s.CurrentVoters {
		ids = append(ids, strconv.Itoa(int(v.ReplicaID)))
	}
	return strings.Join(ids, ", ")
}

func newQuorumHandover() *cobra.Command {
	var to int32
	cmd := &cobra.Command{
		Use: "handover", Short: "Have another voter become the active controller", Args: cobra.NoArgs,
		Long: `Has another voter become the active controller: the one given by --to, or the one
that has most of the log. The active controller steps down when the next one has all
of it. Apache Kafka's controllers do not listen to that; there the others are told
what a leader that stops tells them (EndQuorumEpoch), which may take several tries
while metadata changes. Nothing is lost; requests that wait are answered by the next
controller or tried again.`,
	}
	f := addClusterFlags(cmd)
	cmd.Flags().Int32Var(&to, "to", -1, "node id of the voter that should lead")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.with(func(c *clusterClient) error { return c.handover(cmd.OutOrStdout(), to) })
	}
	return cmd
}

// handover has another voter lead: to, unless that is negative.
func (c *clusterClient) handover(w io.Writer, to int32) error {
	before, err := c.quorum()
	if err != nil {
		return err
	}
	s := before
	for deadline := time.Now().Add(clientTimeout); ; {
		end, err := farewell(&s, to)
		if err != nil {
			return err
		}
		now, err := c.bid(&s, end)
		late := time.Now().After(deadline)
		switch {
		case err == nil && (to < 0 || now.LeaderID == to):
			_, err := fmt.Fprintf(w, "node %d leads in epoch %d; before it was node %d in epoch %d\n", now.LeaderID, now.LeaderEpoch, before.LeaderID, before.LeaderEpoch)
			return err
		case err == nil && late:
			return fmt.Errorf("node %d leads in epoch %d: tried for %s, and node %d was never elected", now.LeaderID, now.LeaderEpoch, clientTimeout, to)
		case err != nil && (late || !errors.Is(err, errNobodyElse)):
			return err
		}
		s = now
	}
}

var errNobodyElse = errors.New("nobody else has become the active controller")

// bid says the leader's farewell: to the leader, which waits with it until who
// shall follow has everything; then, if nobody else leads after that, to the others:
// Apache Kafka's leaders do not listen to it, and the leader may not be reached from
// here. It gives the quorum as it is afterwards.
func (c *clusterClient) bid(s *quorumState, end *raft.EndQuorumEpochRequest) (quorumState, error) {
	if leader := s.endpoint(s.LeaderID); leader != "" {
		if err := c.sendTo(leader, raftwire.Codec{Listener: s.listener()}, end); err == nil {
			if now, err := c.awaitHandover(s); err == nil {
				return now, nil
			}
		}
	}
	if err := c.tell(s, end); err != nil {
		return quorumState{}, err
	}
	now, err := c.awaitHandover(s)
	if err != nil {
		now = *s
	}
	return now, err
}

// tell sends the farewell to all successors, to the first one last: when it asks
// for votes, the others must know that they may give them.
func (c *clusterClient) tell(s *quorumState, end *raft.EndQuorumEpochRequest) error {
	for _, key := range end.Successors {
		if s.endpoint(int32(key.ID)) == "" {
			return fmt.Errorf("the cluster does not tell where voter %d is: it is older than 3.9", key.ID)
		}
	}
	codec := raftwire.Codec{Listener: s.listener()}
	for _, key := range slices.Backward(end.Successors) {
		if err := c.sendTo(s.endpoint(int32(key.ID)), codec, end); err != nil {
			return fmt.Errorf("voter %d: %w", key.ID, err)
		}
	}
	return nil
}

// farewell is what the leader would say; the successors are the other voters,
// who should lead first.
func farewell(s *quorumState, to int32) (*raft.EndQuorumEpochRequest, error) {
	others := slices.DeleteFunc(slices.Clone(s.CurrentVoters), func(v kmsg.DescribeQuorumResponseTopicPartitionReplicaState) bool {
		return v.ReplicaID == s.LeaderID
	})
	switch {
	case len(others) == 0:
		return nil, errors.New("there is no other voter that could lead")
	case to == s.LeaderID:
		return nil, fmt.Errorf("node %d is the active controller already", to)
	case to >= 0 && !slices.ContainsFunc(others, func(v kmsg.DescribeQuorumResponseTopicPartitionReplicaState) bool { return v.ReplicaID == to }):
		return nil, fmt.Errorf("node %d is not a voter; the voters are %s", to, voterIDs(s))
	}
	slices.SortStableFunc(others, func(a, b kmsg.DescribeQuorumResponseTopicPartitionReplicaState) int {
		if a.ReplicaID == to || b.ReplicaID == to {
			return map[bool]int{true: -1, false: 1}[a.ReplicaID == to]
		}
		return cmp.Compare(b.LogEndOffset, a.LogEndOffset)
	})
	end := &raft.EndQuorumEpochRequest{LeaderID: kafka.NodeID(s.LeaderID), LeaderEpoch: kafka.Epoch(s.LeaderEpoch)}
	for _, v := range others {
		end.Successors = append(end.Successors, raft.ReplicaKey{ID: kafka.NodeID(v.ReplicaID), Dir: v.ReplicaDirectoryID})
	}
	return end, nil
}

// listener is the controllers' listener, as the voters name it.
func (s *quorumState) listener() string {
	for _, n := range s.nodes {
		for _, l := range n.Listeners {
			return l.Name
		}
	}
	return "CONTROLLER"
}

// awaitHandover waits for another leader. A voter that has just heard from the
// leader does not give its vote, so that it may take another try.
func (c *clusterClient) awaitHandover(before *quorumState) (quorumState, error) {
	deadline := time.Now().Add(time.Second)
	for {
		now, err := c.quorum()
		switch {
		case err == nil && now.LeaderEpoch > before.LeaderEpoch && now.LeaderID >= 0:
			return now, nil
		case time.Now().After(deadline):
			return now, errors.Join(errNobodyElse, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
