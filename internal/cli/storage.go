package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/seglog/logdir"
	"moldau/internal/server"
	"moldau/internal/vfs"
)

func newStorage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "storage",
		Short: "Format and inspect log directories, as kafka-storage does",
		Args:  cobra.NoArgs,
		RunE:  help,
	}
	cmd.AddCommand(newStorageFormat(), newStorageInfo(), &cobra.Command{
		Use: "random-uuid", Short: "Print a new id, for --cluster-id", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), server.NewUUID())
			return err
		},
	})
	return cmd
}

// formatFlags are the flags of storage format.
type formatFlags struct {
	config, clusterID, release, initial string
	standalone, noInitial, ignore       bool
	features, scram                     []string
}

func newStorageFormat() *cobra.Command {
	var f formatFlags
	cmd := &cobra.Command{
		Use:   "format",
		Short: "Make log directories ready for a node",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return f.run(cmd.OutOrStdout()) },
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.config, "config", "c", "", "the node's server.properties (required)")
	fl.StringVarP(&f.clusterID, "cluster-id", "t", "", "the cluster's id (required)")
	fl.StringVarP(&f.release, "release-version", "r", "", "the release whose features the cluster begins with")
	fl.StringArrayVarP(&f.features, "feature", "f", nil, "a feature level: name=level")
	fl.StringArrayVarP(&f.scram, "add-scram", "S", nil, "a SCRAM user: SCRAM-SHA-256=[name=alice,password=secret]")
	fl.StringVarP(&f.initial, "initial-controllers", "I", "", "the first voters: id@host:port:directory,…")
	fl.BoolVarP(&f.standalone, "standalone", "s", false, "this controller alone is the quorum")
	fl.BoolVarP(&f.noInitial, "no-initial-controllers", "N", false, "voters are added later")
	fl.BoolVarP(&f.ignore, "ignore-formatted", "g", false, "leave directories alone that are formatted already")
	_ = cmd.MarkFlagRequired("config")
	_ = cmd.MarkFlagRequired("cluster-id")
	cmd.MarkFlagsMutuallyExclusive("standalone", "no-initial-controllers", "initial-controllers")
	return cmd
}

func (f *formatFlags) run(out io.Writer) error {
	if strings.TrimSpace(f.clusterID) == "" {
		return errors.New("--cluster-id is empty; pass that of the cluster, or a new one: $(moldau storage random-uuid)")
	}
	c, err := loadConfig(f.config, nil)
	if err != nil {
		return err
	}
	o := server.FormatOptions{FS: vfs.OS{}, Config: c, ClusterID: f.clusterID, Standalone: f.standalone, Now: time.Now()}
	if err := f.voters(c, &o); err != nil {
		return err
	}
	if o.Records, err = server.ClusterFeatures(f.release, f.features); err != nil {
		return err
	}
	for _, spec := range f.scram {
		r, err := server.ScramRecord(spec)
		if err != nil {
			return err
		}
		o.Records = append(o.Records, r)
	}
	done, err := f.formatted(c)
	if err != nil {
		return err
	}
	if len(done) == len(server.Directories(c)) {
		fmt.Fprintln(out, "All of the log directories are already formatted.")
		return nil
	}
	o.Skip = func(dir string) bool { return slices.Contains(done, dir) }
	if err := server.Format(o); err != nil {
		return err
	}
	f.report(out, c, &o)
	return nil
}

// voters applies kafka-storage's rules on who may be named.
func (f *formatFlags) voters(c *config.Server, o *server.FormatOptions) error {
	dynamic := f.standalone || f.noInitial || f.initial != ""
	switch {
	case len(c.Voters) > 0 && dynamic:
		return errors.New("controller.quorum.voters is set, so --standalone, --initial-controllers and --no-initial-controllers cannot be used; remove one or the other")
	case len(c.Voters) > 0:
		return nil // kraft.version 0
	case !c.Controller && (f.standalone || f.initial != ""):
		return errors.New("this node is not a controller: --standalone and --initial-controllers are for controllers")
	case c.Controller && !dynamic:
		return errors.New("because controller.quorum.voters is not set on this controller, you must specify one of --standalone, --initial-controllers, or --no-initial-controllers")
	}
	o.KRaft = 1
	if f.initial == "" {
		return nil
	}
	set, err := parseVoters(f.initial, c)
	if err != nil {
		return err
	}
	if _, ok := set.Find(c.NodeID); !ok {
		return fmt.Errorf("--initial-controllers does not name this node, %d", c.NodeID)
	}
	o.Initial = set
	return nil
}

// parseVoters reads id@host:port:directory,… (DynamicVoters.parse).
func parseVoters(text string, c *config.Server) (raft.VoterSet, error) {
	var voters []raft.Voter
	for _, item := range config.SplitList(text) {
		id, rest, ok := strings.Cut(item, "@")
		n, err := strconv.ParseInt(id, 10, 32)
		at := strings.LastIndexByte(rest, ':')
		if !ok || err != nil || at < 0 {
			return raft.VoterSet{}, fmt.Errorf("--initial-controllers: %q is not of the form id@host:port:directory", item)
		}
		dir, err := kafka.ParseUUID(rest[at+1:])
		if err != nil {
			return raft.VoterSet{}, fmt.Errorf("--initial-controllers: directory of %q: %w", item, err)
		}
		if dir.Reserved() {
			return raft.VoterSet{}, fmt.Errorf("--initial-controllers: directory of %q is a reserved id; use one of moldau storage random-uuid", item)
		}
		host, port, ok := strings.Cut(rest[:at], ":")
		if i := strings.LastIndexByte(rest[:at], ':'); i >= 0 {
			host, port = rest[:i], rest[i+1:at]
		}
		p, err := strconv.ParseUint(port, 10, 16)
		if !ok || err != nil {
			return raft.VoterSet{}, fmt.Errorf("--initial-controllers: %q is not of the form id@host:port:directory", item)
		}
		voters = append(voters, raft.Voter{
			Key:       raft.ReplicaKey{ID: kafka.NodeID(n), Dir: kafka.DirectoryID(dir)},
			Endpoints: []kafka.Endpoint{{Name: c.ControllerListeners[0], Host: strings.Trim(host, "[]"), Port: uint16(p)}},
			MaxKRaft:  1,
		})
	}
	return raft.NewVoterSet(voters...)
}

// formatted lists the directories that are formatted; without
// --ignore-formatted there must be none, and they must be of this cluster.
func (f *formatFlags) formatted(c *config.Server) ([]string, error) {
	var done []string
	for _, dir := range server.Directories(c) {
		m, err := logdir.ReadMetaProperties(vfs.OS{}, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case m.ClusterID != f.clusterID:
			return nil, fmt.Errorf("%s/meta.properties is of cluster %s, not %s", dir, m.ClusterID, f.clusterID)
		case m.NodeID != c.NodeID:
			return nil, fmt.Errorf("%s/meta.properties is of node %d, not %d", dir, m.NodeID, c.NodeID)
		case !f.ignore:
			return nil, fmt.Errorf("log directory %s is already formatted; use --ignore-formatted to ignore this directory and format the others", dir)
		}
		done = append(done, dir)
	}
	return done, nil
}

func (f *formatFlags) report(out io.Writer, c *config.Server, o *server.FormatOptions) {
	var levels []string
	version := ""
	for _, r := range o.Records {
		name, level := server.FeatureOf(r)
		if name != "" {
			levels = append(levels, name+"="+level)
		}
		if version == "" {
			version = server.VersionName(r)
		}
	}
	fmt.Fprintf(out, "Bootstrap metadata: %s\n", strings.Join(levels, ", "))
	for _, dir := range server.Directories(c) {
		if o.Skip(dir) {
			continue
		}
		kind := "data directory"
		if dir == c.MetadataLogDir {
			kind = "metadata directory"
			if o.Standalone || o.Initial.Len() > 0 {
				kind = "dynamic metadata voter directory"
			}
		}
		fmt.Fprintf(out, "Formatting %s %s with metadata.version %s.\n", kind, dir, version)
	}
}

func newStorageInfo() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Say what the log directories of a node hold",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(file, nil)
			if err != nil {
				return err
			}
			return storageInfo(cmd.OutOrStdout(), c)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the node's server.properties (required)")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

func storageInfo(out io.Writer, c *config.Server) error {
	var found, problems []string
	var metas []logdir.MetaProperties
	for _, dir := range server.Directories(c) {
		if st, err := os.Stat(dir); err != nil {
			problems = append(problems, dir+" does not exist")
			continue
		} else if !st.IsDir() {
			problems = append(problems, dir+" is not a directory")
			continue
		}
		found = append(found, dir)
		m, err := logdir.ReadMetaProperties(vfs.OS{}, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			problems = append(problems, dir+" is not formatted.")
		case err != nil:
			problems = append(problems, err.Error())
		default:
			metas = append(metas, m)
		}
	}
	for i := range metas {
		if metas[i].ClusterID != metas[0].ClusterID || metas[i].NodeID != metas[0].NodeID {
			problems = append(problems, "the directories belong to different nodes or clusters")
			break
		}
	}
	if len(found) > 0 {
		fmt.Fprintf(out, "Found log directories:\n  %s\n\n", strings.Join(found, "\n  "))
	}
	if len(metas) > 0 {
		m := metas[0]
		fmt.Fprintf(out, "Found metadata: {cluster.id=%s, directory.id=%s, node.id=%d, version=1}\n\n", m.ClusterID, m.DirectoryID, m.NodeID)
	}
	if len(problems) > 0 {
		fmt.Fprintf(out, "Found problems:\n  %s\n\n", strings.Join(problems, "\n  "))
		return errors.New("the directories are not ready; to format new ones, type: moldau storage format --config <file> --cluster-id $(moldau storage random-uuid) --standalone")
	}
	return nil
}
