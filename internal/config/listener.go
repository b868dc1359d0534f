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
	names := map[string]bool{}
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
		out = append(out, l)
	}
	if key == "advertised.listeners" {
		return out, nil
	}
	for i, l := range out {
		for _, o := range out[:i] {
			if l.Port != 0 && l.Port == o.Port && !otherFamily(l.Host, o.Host) {
				return nil, fmt.Errorf("%s: each listener must have a different port, but %s and %s have %d; only an IPv4 and an IPv6 address may share one", key, o.Name, l.Name, l.Port)
			}
		}
	}
	return out, nil
}

// otherFamily tells whether one is an IPv4 address and the other an IPv6 address,
// which can share a port (CoreUtils.listenerListToEndPoints).
func otherFamily(a, b string) bool {
	x, err := netip.ParseAddr(a)
	y, err2 := netip.ParseAddr(b)
	return err == nil && err2 == nil && x.Is4() != y.Is4()
}

// hostChars are what Kafka takes in a host: names, IPv4 and IPv6 with a zone.
const hostChars = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-%._:[]"

func parseListener(item string) (Listener, error) {
	name, rest, ok := strings.Cut(item, "://")
	host, port := rest, ""
	if i := strings.LastIndexByte(rest, ':'); ok && i >= 0 {
		host, port = rest[:i], rest[i+1:]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if !ok || name == "" || err != nil || strings.Trim(host, hostChars) != "" {
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
	spelled := map[string]string{}
	for _, item := range SplitList(strings.TrimRight(text, ", ")) {
		name, proto, _ := strings.Cut(item, ":")
		p, ok := known[strings.ToUpper(strings.TrimSpace(proto))]
		if !ok {
			return nil, fmt.Errorf("listener.security.protocol.map: %q is not of the form NAME:PROTOCOL with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", item)
		}
		name = strings.TrimSpace(name)
		key := strings.ToUpper(name)
		if other, twice := spelled[key]; twice && other != name {
			return nil, fmt.Errorf("listener.security.protocol.map: %s and %s are the same listener; name it once", other, name)
		}
		out[key], spelled[key] = p, name
	}
	return out, nil
}
