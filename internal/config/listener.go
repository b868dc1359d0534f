package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// Listener is one entry of listeners or advertised.listeners.
type Listener struct {
	Name     string // upper case, e.g. "PLAINTEXT"
	Host     string // empty: every address
	Port     uint16 // 0: any free one
	Protocol kafka.SecurityProtocol
}

// String gives the form NAME://host:port.
func (l Listener) String() string {
	host := l.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("%s://%s:%d", l.Name, host, l.Port)
}

// Address gives host:port for net.Listen or net.Dial.
func (l Listener) Address() string {
	host := l.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(l.Port))
}

// parseListeners reads a list of NAME://host:port and looks the protocols up.
func parseListeners(key, text string, protocols map[string]kafka.SecurityProtocol) ([]Listener, error) {
	var out []Listener
	names, ports := map[string]bool{}, map[string]bool{}
	for _, item := range SplitList(text) {
		l, err := parseListener(item)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		var ok bool
		if l.Protocol, ok = protocols[l.Name]; !ok {
			return nil, fmt.Errorf("%s: no security protocol defined for listener %s; add %s:PLAINTEXT to listener.security.protocol.map", key, l.Name, l.Name)
		}
		if names[l.Name] {
			return nil, fmt.Errorf("%s: each listener must have a different name, but %s is there twice", key, l.Name)
		}
		names[l.Name] = true
		if at := l.Address(); key == "listeners" && l.Port != 0 && ports[at] {
			return nil, fmt.Errorf("%s: each listener must have a different port, but %s is there twice", key, at)
		} else {
			ports[at] = true
		}
		out = append(out, l)
	}
	return out, nil
}

func parseListener(item string) (Listener, error) {
	name, rest, ok := strings.Cut(item, "://")
	host, port := rest, ""
	if i := strings.LastIndexByte(rest, ':'); ok && i >= 0 {
		host, port = rest[:i], rest[i+1:]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if !ok || name == "" || err != nil {
		return Listener{}, fmt.Errorf("%q is not of the form NAME://host:port", item)
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
		if _, err := netip.ParseAddr(host); err != nil {
			return Listener{}, fmt.Errorf("%q: %w", item, err)
		}
	}
	return Listener{Name: strings.ToUpper(name), Host: host, Port: uint16(n)}, nil
}

// parseProtocols reads listener.security.protocol.map.
func parseProtocols(text string) (map[string]kafka.SecurityProtocol, error) {
	known := map[string]kafka.SecurityProtocol{}
	for _, p := range []kafka.SecurityProtocol{kafka.Plaintext, kafka.SSL, kafka.SASLPlaintext, kafka.SASLSSL} {
		known[p.String()] = p
	}
	out := map[string]kafka.SecurityProtocol{}
	for _, item := range SplitList(text) {
		name, proto, _ := strings.Cut(item, ":")
		p, ok := known[strings.ToUpper(strings.TrimSpace(proto))]
		if !ok {
			return nil, fmt.Errorf("listener.security.protocol.map: %q is not of the form NAME:PROTOCOL with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", item)
		}
		out[strings.ToUpper(strings.TrimSpace(name))] = p
	}
	return out, nil
}
