package config

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// Default is the properties text of a node that nothing was configured for.
const Default = `# What moldau runs with when nothing is configured.
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9093
log.dirs=moldau-data
default.replication.factor=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
`

// Voter is one entry of controller.quorum.voters.
type Voter struct {
	ID      kafka.NodeID
	Address string // host:port
}

// Server holds the static settings of this node, checked.
type Server struct {
	NodeID kafka.NodeID
	Listening
	Voters           []Voter  // controller.quorum.voters
	BootstrapServers []string // controller.quorum.bootstrap.servers
	LogDirs          []string
	MetadataLogDir   string
	Rack             string
	// Unknown lists the keys that the table does not have, in order.
	Unknown []string

	static map[string]string
}

// NewServer checks properties and gives the typed settings. An error says what
// is wrong and what to write instead; it may join several.
func NewServer(props map[string]string) (*Server, error) {
	s := &Server{static: map[string]string{}}
	var errs []error
	for name, value := range props {
		k, ok := BrokerKey(PlainName(name))
		if !ok {
			s.Unknown = append(s.Unknown, name)
			continue
		}
		if err := k.Check(value); err != nil {
			errs = append(errs, err)
		}
		s.static[name] = strings.TrimSpace(value)
	}
	sort.Strings(s.Unknown)
	if _, err := ParsePerIPOverrides(s.Text("max.connections.per.ip.overrides")); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		sort.Slice(errs, func(i, j int) bool { return errs[i].Error() < errs[j].Error() })
		return nil, errors.Join(errs...)
	}
	for _, step := range []func() error{s.identity, s.listeners, s.quorum, s.directories} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Static finds what the properties set, for Layers.
func (s *Server) Static(name string) (string, bool) { v, ok := s.static[name]; return v, ok }

// ListenerNames are the settings of single listeners that the properties set, in
// order (ListenerPrefix).
func (s *Server) ListenerNames() []string {
	var names []string
	for _, name := range sortedNames(s.static) {
		if PlainName(name) != name {
			names = append(names, name)
		}
	}
	return names
}

// Text gives a setting as text, "" if unset.
func (s *Server) Text(name string) string {
	v, _ := Layers{Static: s.Static}.BrokerValue(name)
	return v
}

// Long gives a number setting; the table must have it and it must have a value.
func (s *Server) Long(name string) int64 {
	n, err := strconv.ParseInt(s.Text(name), 10, 64)
	if err != nil {
		panic("config: no number setting " + name)
	}
	return n
}

// Flag gives a boolean setting.
func (s *Server) Flag(name string) bool { return strings.EqualFold(s.Text(name), "true") }

func (s *Server) identity() error {
	roles := SplitList(s.Text("process.roles"))
	if len(roles) == 0 {
		return errors.New("process.roles is missing; a node that is everything says process.roles=broker,controller")
	}
	id, broker := s.static["node.id"], s.static["broker.id"]
	switch {
	case id == "" && (broker == "" || broker == "-1"):
		return errors.New("node.id is missing; give each node of the cluster another number ≥ 0, e.g. node.id=1")
	case id == "":
		id = broker
	case broker != "" && broker != "-1" && broker != id:
		return fmt.Errorf("node.id=%s and broker.id=%s contradict each other; remove broker.id", id, broker)
	}
	n, _ := strconv.ParseInt(id, 10, 32)
	s.NodeID = kafka.NodeID(n)
	s.static["node.id"], s.static["broker.id"] = id, id
	s.Rack = s.Text("broker.rack")
	return nil
}

func (s *Server) listeners() error {
	l, err := NewListening(Layers{Static: s.Static})
	if err != nil {
		return err
	}
	s.Listening = *l
	if !s.Controller && s.Flag("controller.quorum.auto.join.enable") {
		return errors.New("controller.quorum.auto.join.enable is for controllers, but process.roles has broker only; remove it")
	}
	return nil
}

func (s *Server) quorum() error {
	s.BootstrapServers = SplitList(s.Text("controller.quorum.bootstrap.servers"))
	for _, address := range s.BootstrapServers {
		i := strings.LastIndexByte(address, ':')
		if _, err := strconv.ParseUint(address[i+1:], 10, 16); i < 1 || err != nil {
			return fmt.Errorf("controller.quorum.bootstrap.servers: %q is not of the form host:port", address)
		}
	}
	for _, item := range SplitList(s.Text("controller.quorum.voters")) {
		id, address, ok := strings.Cut(item, "@")
		n, err := strconv.ParseInt(id, 10, 32)
		if !ok || err != nil || !strings.Contains(address, ":") {
			return fmt.Errorf("controller.quorum.voters: %q is not of the form id@host:port", item)
		}
		s.Voters = append(s.Voters, Voter{ID: kafka.NodeID(n), Address: address})
	}
	isVoter := slices.ContainsFunc(s.Voters, func(v Voter) bool { return v.ID == s.NodeID })
	switch {
	case len(s.Voters) == 0 && len(s.BootstrapServers) == 0:
		return errors.New("neither controller.quorum.bootstrap.servers nor controller.quorum.voters is set; name the controllers, e.g. controller.quorum.bootstrap.servers=localhost:9093")
	case len(s.Voters) > 0 && s.Controller && !isVoter:
		return fmt.Errorf("process.roles has controller, but controller.quorum.voters has no node %d; add %d@host:port or drop the role", s.NodeID, s.NodeID)
	case len(s.Voters) > 0 && !s.Controller && isVoter:
		return fmt.Errorf("controller.quorum.voters has node %d, but process.roles has no controller; add the role or remove the voter", s.NodeID)
	}
	return nil
}

func (s *Server) directories() error {
	text, set := s.static["log.dirs"]
	if !set {
		text = s.Text("log.dir")
	}
	s.LogDirs = SplitList(text)
	if len(s.LogDirs) == 0 || slices.Contains(s.LogDirs, "") {
		return errors.New("log.dirs has an empty name; name the folder for the data, e.g. log.dirs=/var/lib/moldau")
	}
	if s.MetadataLogDir = s.Text("metadata.log.dir"); s.MetadataLogDir == "" {
		s.MetadataLogDir = s.LogDirs[0]
	}
	return nil
}
