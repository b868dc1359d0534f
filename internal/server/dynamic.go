package server

import (
	"strconv"
	"strings"

	"moldau/internal/config"
	"moldau/internal/metadata"
	"moldau/internal/network"
	"moldau/internal/partition"
)

// taker takes dynamic broker settings at run time. Partitions take those of
// topics, and what partition.Store tunes; the controller looks settings up when
// it decides. What nobody takes stands with its reason in TestEveryDynamicSetting.
type taker struct {
	keys []string
	take func(*Server, config.Layers)
}

func takers() []taker {
	return []taker{
		{[]string{"max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides", "max.connection.creation.rate"},
			func(s *Server, l config.Layers) { s.network.SetLimits(limitsOf(l)) }},
		{[]string{"listeners", "listener.security.protocol.map"},
			func(s *Server, l config.Layers) { s.ports.want(l) }},
	}
}

// follow runs on the quorum's loop for each committed change: it hands this
// node's dynamic settings to their takers.
func (s *Server) follow(d *metadata.Delta, img *metadata.Image) {
	self := strconv.Itoa(int(s.opts.Config.NodeID))
	for _, r := range d.Configs() {
		if r.Type != metadata.BrokerResource || r.Name != "" && r.Name != self {
			continue
		}
		l := partition.LayersOf(img, s.opts.Config.Static, s.opts.Config.NodeID, "")
		for _, t := range takers() {
			t.take(s, l)
		}
		return
	}
}

// limitsOf reads the limits of connections; a value that does not parse, which
// another node's check let through, does not limit.
func limitsOf(l config.Layers) network.Limits {
	number := func(name string, otherwise int) int {
		v, _ := l.BrokerValue(name)
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 32)
		if err != nil {
			return otherwise
		}
		return int(n)
	}
	limits := network.Unlimited()
	_, connections := descriptors()
	limits.MaxConnections = min(number("max.connections", limits.MaxConnections), connections)
	limits.MaxConnectionsPerIP = number("max.connections.per.ip", limits.MaxConnectionsPerIP)
	limits.CreationRate = number("max.connection.creation.rate", limits.CreationRate)
	text, _ := l.BrokerValue("max.connections.per.ip.overrides")
	limits.PerIPOverrides, _ = config.ParsePerIPOverrides(text)
	limits.Listeners = map[string]network.ListenerLimits{}
	listening, _ := config.InForce(l)
	limits.Protected = listening.Protected()
	for _, listener := range listening.Listeners {
		name := strings.ToLower(listener.Name)
		own := network.ListenerLimits{
			MaxConnections: number(config.ListenerPrefix+name+".max.connections", -1),
			CreationRate:   number(config.ListenerPrefix+name+".max.connection.creation.rate", -1),
		}
		if own != (network.ListenerLimits{MaxConnections: -1, CreationRate: -1}) {
			limits.Listeners[name] = own
		}
	}
	return limits
}
