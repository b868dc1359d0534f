package server

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"moldau/internal/controller"
	"moldau/internal/record"
)

// Limits of ScramMechanism.
const (
	minIterations = 4096
	maxIterations = 16384
	scramSaltLen  = 24
)

// ScramRecord reads the form of kafka-storage's --add-scram,
// SCRAM-SHA-256=[name=alice,password=secret] with optional iterations and salt
// (base64), or saltedpassword instead of password, and makes the record with
// the credential.
func ScramRecord(spec string) (controller.VersionedRecord, error) {
	fail := func(why string) (controller.VersionedRecord, error) {
		return controller.VersionedRecord{}, fmt.Errorf("--add-scram %s: %s", spec, why)
	}
	mechanism, rest, ok := strings.Cut(spec, "=[")
	if !ok || !strings.HasSuffix(rest, "]") {
		return fail("want SCRAM-SHA-256=[name=…,password=…]")
	}
	var number int8
	var newHash func() hash.Hash
	var size int
	switch mechanism {
	case "SCRAM-SHA-256":
		number, newHash, size = 1, sha256.New, sha256.Size
	case "SCRAM-SHA-512":
		number, newHash, size = 2, sha512.New, sha512.Size
	default:
		return fail("the mechanism must be SCRAM-SHA-256 or SCRAM-SHA-512")
	}
	fields := map[string]string{}
	for _, f := range strings.Split(strings.TrimSuffix(rest, "]"), ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(f), "=")
		fields[k] = strings.Trim(v, `"`)
	}
	if fields["name"] == "" {
		return fail("name is missing")
	}
	iterations := minIterations
	if text, ok := fields["iterations"]; ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < minIterations || n > maxIterations {
			return fail(fmt.Sprintf("iterations must be from %d to %d", minIterations, maxIterations))
		}
		iterations = n
	}
	salt, salted, err := scramSecrets(fields, newHash, iterations, size)
	if err != nil {
		return fail(err.Error())
	}
	mac := func(key []byte, text string) []byte {
		m := hmac.New(newHash, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored := newHash()
	stored.Write(mac(salted, "Client Key"))
	return controller.VersionedRecord{Message: &record.UserScramCredential{
		Name: fields["name"], Mechanism: number, Salt: salt, StoredKey: stored.Sum(nil),
		ServerKey: mac(salted, "Server Key"), Iterations: int32(iterations),
	}}, nil
}

func scramSecrets(fields map[string]string, newHash func() hash.Hash, iterations, size int) (salt, salted []byte, err error) {
	salt = make([]byte, scramSaltLen)
	if text, ok := fields["salt"]; ok {
		if salt, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, nil, fmt.Errorf("salt is not base64: %w", err)
		}
	} else if _, err := rand.Read(salt); err != nil {
		return nil, nil, err
	}
	password, given := fields["password"]
	text, ready := fields["saltedpassword"]
	switch {
	case given == ready:
		return nil, nil, fmt.Errorf("give either password or saltedpassword")
	case ready && fields["salt"] == "":
		return nil, nil, fmt.Errorf("saltedpassword needs salt")
	case ready:
		salted, err = base64.StdEncoding.DecodeString(text)
	default:
		salted, err = pbkdf2.Key(newHash, password, salt, iterations, size)
	}
	return salt, salted, err
}
