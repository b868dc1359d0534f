package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"moldau/internal/kafka"
)

// Listening says where a node listens and how others reach it. Of a broker it can
// change at run time, since listeners and listener.security.protocol.map can
// (DynamicListenerConfig).
type Listening struct {
	Broker, Controller  bool       // process.roles
	Listeners           []Listener // all that this node opens
	Advertised          []Listener // how others reach each of Listeners; ports 0 are filled in later
	ControllerListeners []string   // controller.listener.names
	InterBrokerListener string

	hidden    map[string]bool // listeners that advertised.listeners leaves out
	protocols map[string]kafka.SecurityProtocol
}

// NewListening reads the settings and checks them. An error says what is wrong and
// what to write instead.
func NewListening(l Layers) (*Listening, error) {
	out := &Listening{}
	roles, _ := l.BrokerValue("process.roles")
	out.Broker, out.Controller = slices.Contains(SplitList(roles), "broker"), slices.Contains(SplitList(roles), "controller")
	text, mapped := l.set("listener.security.protocol.map")
	if !mapped {
		text, _ = l.BrokerValue("listener.security.protocol.map")
	}
	var err error
	if out.protocols, err = parseProtocols(text); err != nil {
		return nil, err
	}
	names, _ := l.BrokerValue("controller.listener.names")
	out.ControllerListeners = upper(SplitList(names))
	if len(out.ControllerListeners) == 0 {
		return nil, errors.New("controller.listener.names is missing; name the listener of the controllers, e.g. controller.listener.names=CONTROLLER")
	}
	if !mapped {
		// As Kafka: without a map of one's own, controller listeners are plaintext.
		for _, name := range out.ControllerListeners {
			if _, ok := out.protocols[name]; !ok {
				out.protocols[name] = kafka.Plaintext
			}
		}
	}
	text, _ = l.BrokerValue("listeners")
	if out.Listeners, err = parseListeners("listeners", text, out.protocols); err != nil {
		return nil, err
	}
	interBroker, _ := l.BrokerValue("inter.broker.listener.name")
	out.InterBrokerListener = strings.ToUpper(interBroker)
	if err := out.checkRoles(); err != nil {
		return nil, err
	}
	text, _ = l.BrokerValue("advertised.listeners")
	if err := out.advertise(text); err != nil {
		return nil, err
	}
	return out, out.nameInterBroker()
}

// InForce gives what NewListening does, or, with the error, what the properties
// file alone says: dynamic settings that do not go together with it, which a change
// of the file can leave behind, do not count. Nor do those of a node that is no
// broker, as in Kafka.
func InForce(l Layers) (*Listening, error) {
	static, err := NewListening(Layers{Static: l.Static})
	if err != nil || !static.Broker {
		return static, err
	}
	now, err := NewListening(l)
	if err != nil {
		return static, err
	}
	return now, nil
}

// checkRoles: the listeners are those that the roles need (KafkaConfig.validateValues).
func (s *Listening) checkRoles() error {
	var clients, controllers int
	for _, l := range s.Listeners {
		if s.IsControllerListener(l.Name) {
			controllers++
		} else {
			clients++
		}
		if l.Protocol != kafka.Plaintext {
			return fmt.Errorf("listener %s uses %s, which this version does not offer yet; use PLAINTEXT", l.Name, l.Protocol)
		}
	}
	switch {
	case s.Controller && controllers == 0:
		return fmt.Errorf("process.roles has controller, but listeners has none of controller.listener.names; add e.g. %s://:9093 to listeners", s.ControllerListeners[0])
	case !s.Controller && controllers > 0:
		return errors.New("listeners has a controller listener, but process.roles has no controller; remove it from listeners")
	case s.Broker && clients == 0:
		return errors.New("process.roles has broker, but listeners has only controller listeners; add e.g. PLAINTEXT://:9092")
	case !s.Broker && clients > 0:
		return errors.New("process.roles is controller only, but listeners has others than controller.listener.names; remove them")
	}
	for _, name := range s.ControllerListeners {
		_, known := s.protocols[name]
		switch {
		case s.Controller && !s.has(name):
			return fmt.Errorf("controller.listener.names has %s, which listeners does not have; add it there or remove it here", name)
		case !known:
			return fmt.Errorf("controller.listener.names has %s, for which no security protocol is defined; add %s:PLAINTEXT to listener.security.protocol.map", name, name)
		case name == s.InterBrokerListener:
			return fmt.Errorf("inter.broker.listener.name is %s, which controller.listener.names has too; brokers need a listener of their own", name)
		}
	}
	return nil
}

// advertise reads advertised.listeners; "" advertises all listeners as they are.
func (s *Listening) advertise(text string) error {
	s.Advertised, s.hidden = slices.Clone(s.Listeners), map[string]bool{}
	for i, l := range s.Advertised {
		if s.IsControllerListener(l.Name) && l.Host == "0.0.0.0" {
			s.Advertised[i].Host = "" // the host's name (effectiveAdvertisedControllerListeners)
		}
	}
	if text != "" {
		given, err := parseListeners("advertised.listeners", text, s.protocols)
		if err != nil {
			return err
		}
		for _, g := range given {
			i := slices.IndexFunc(s.Advertised, func(l Listener) bool { return l.Name == g.Name })
			if i < 0 {
				return fmt.Errorf("advertised.listeners has %s, which listeners does not have; add it there or remove it here", g.Name)
			}
			s.Advertised[i] = g
		}
		for _, l := range s.Listeners {
			s.hidden[l.Name] = !s.IsControllerListener(l.Name) && !slices.ContainsFunc(given, func(g Listener) bool { return g.Name == l.Name })
		}
	}
	for _, l := range s.Advertised {
		if !s.hidden[l.Name] && (l.Host == "0.0.0.0" || l.Host == "::") {
			return fmt.Errorf("advertised.listeners cannot use %s, to which nobody can connect; set advertised.listeners=%s://<a name of this host>:%d", l.Host, l.Name, l.Port)
		}
	}
	return nil
}

// nameInterBroker finds the listener over which brokers talk to each other.
func (s *Listening) nameInterBroker() error {
	switch {
	case s.InterBrokerListener == "" && s.Broker:
		s.InterBrokerListener = kafka.Plaintext.String()
		if s.Advertises(s.InterBrokerListener) {
			return nil
		}
		for _, l := range s.Listeners {
			if s.Advertises(l.Name) {
				s.InterBrokerListener = l.Name
				return nil
			}
		}
	case s.Broker && !s.has(s.InterBrokerListener):
		return fmt.Errorf("inter.broker.listener.name is %s, which listeners does not have; add it there", s.InterBrokerListener)
	}
	if s.Broker && !s.Advertises(s.InterBrokerListener) {
		return fmt.Errorf("advertised.listeners leaves out %s, over which brokers talk to each other; add it there", s.InterBrokerListener)
	}
	return nil
}

func (s *Listening) has(name string) bool {
	return slices.ContainsFunc(s.Listeners, func(l Listener) bool { return l.Name == name })
}

// Advertises tells whether the broker tells others of one of its listeners.
func (s *Listening) Advertises(name string) bool {
	return !s.IsControllerListener(name) && !s.hidden[name] && s.has(name)
}

// IsControllerListener tells whether the listener is for controllers.
func (s *Listening) IsControllerListener(name string) bool {
	return slices.Contains(s.ControllerListeners, name)
}

// Protected are the listeners over which the cluster itself lives, if clients have
// others: the controllers', and that of other brokers.
func (s *Listening) Protected() (list []string) {
	brokers := false // is there a listener that controllers do not have
	for _, l := range s.Listeners {
		if s.IsControllerListener(l.Name) {
			continue
		}
		brokers = true
		if l.Name != s.InterBrokerListener {
			list = []string{s.InterBrokerListener}
		}
	}
	if !brokers {
		return nil
	}
	return append(list, s.ControllerListeners...)
}

// checkListeners: what KafkaConfig and DynamicListenerConfig demand of listeners.
// names are the settings that one of the two has at this place.
func checkListeners(before, after Layers, names []string) error {
	now, err := NewListening(after)
	if err != nil || !slices.ContainsFunc(names, func(name string) bool { return ofListeners(name) && differs(before, after, name) }) {
		return err
	}
	was, _ := InForce(before)
	if was == nil {
		return nil // nothing that runs
	}
	for _, l := range was.Listeners {
		if was.Advertises(l.Name) && !now.has(l.Name) {
			return fmt.Errorf("listener %s is advertised and must stay in listeners; a listener that advertised.listeners leaves out can be removed", l.Name)
		}
		if !now.has(l.Name) {
			continue
		}
		if now.protocols[l.Name] != l.Protocol {
			return fmt.Errorf("the security protocol of the existing listener %s cannot be changed from %s to %s; add a listener of another name", l.Name, l.Protocol, now.protocols[l.Name])
		}
		for _, name := range names {
			if strings.HasPrefix(name, ListenerPrefix+strings.ToLower(l.Name)+".") && !ofConnections(PlainName(name)) && !perListener(PlainName(name)) && differs(before, after, name) {
				return fmt.Errorf("%s cannot be changed together with others while the listener %s exists; restart with it in the properties file, or add a listener of another name", name, l.Name)
			}
		}
	}
	return nil
}

// ofListeners tells whether a change of the setting has Kafka look at the listeners
// (DynamicListenerConfig.ReconfigurableConfigs).
func ofListeners(name string) bool {
	k := DynamicKey(name)
	return k != nil && k.Name == name && (k.Dynamic == PerBroker || ofConnections(name))
}

func differs(before, after Layers, name string) bool {
	was, had := before.set(name)
	v, has := after.set(name)
	return had != has || was != v
}

func upper(names []string) []string {
	for i := range names {
		names[i] = strings.ToUpper(names[i])
	}
	return names
}
