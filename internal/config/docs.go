package config

// Doc explains the setting to an operator, in a sentence or two.
func (k *Key) Doc() string { return "" }
