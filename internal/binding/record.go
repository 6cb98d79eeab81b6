// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Limits of one record. docs/bindings.md gives the reasons.
const (
	Version      = 1
	MaxRecordLen = 8192 // bytes, with signature
	MaxPrefixes  = 256
	MaxEndpoints = 8

	// MaxValidity bounds the life of a record; a revocation lives at least
	// MinRevocation, so that it outlives whatever was signed before it.
	MaxValidity   = 398 * 24 * time.Hour
	MinRevocation = 405 * 24 * time.Hour
	MaxRevocation = 800 * 24 * time.Hour

	// Skew is by how much the clocks of issuer and reader may differ.
	Skew = 5 * time.Minute

	maxTime = 1 << 40 // seconds; 34,000 years
)

// Key is an Ed25519 public key.
type Key [ed25519.PublicKeySize]byte

func (k Key) String() string { return hex.EncodeToString(k[:]) }

// MarshalText writes 64 hex digits.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what ParseKey reads.
func (k *Key) UnmarshalText(text []byte) error {
	parsed, err := ParseKey(string(text))
	*k = parsed
	return err
}

// ParseKey reads 64 hex digits.
func ParseKey(s string) (Key, error) {
	var k Key
	if len(s) != 2*len(k) {
		return k, fmt.Errorf("a public key is %d hex digits, not %d characters; `tidegate binding keygen` prints one", 2*len(k), len(s))
	}
	if _, err := hex.Decode(k[:], []byte(s)); err != nil {
		return Key{}, fmt.Errorf("a public key is %d hex digits; `tidegate binding keygen` prints one", 2*len(k))
	}
	return k, nil
}

// Role is what the holder of a key may do.
type Role uint8

const (
	BorderManager Role = 1 // takes filter requests against sources in the prefixes
	FilterManager Role = 2 // may ask for filters on traffic to the prefixes
	Authority     Role = 3 // may sign records for the prefixes and parts of them
	WholeKey      Role = 4 // only revoked: everything that the issuer bound to the key
)

var roleNames = map[Role]string{
	BorderManager: "border-manager", FilterManager: "filter-manager", Authority: "authority", WholeKey: "key",
}

func (r Role) String() string {
	if name, ok := roleNames[r]; ok {
		return name
	}
	return fmt.Sprintf("role-%d", uint8(r))
}

// MarshalText writes the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// ParseRole reads a role's name.
func ParseRole(s string) (Role, error) {
	for r, name := range roleNames {
		if s == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("role %q: want border-manager, filter-manager, authority or key", s)
}

// Service is what listens at an endpoint.
type Service uint8

const (
	ServiceIFP   Service = 1 // filtering protocol, UDP
	ServiceFlood Service = 2 // exchange of bindings, TLS over TCP
)

func (s Service) String() string {
	switch s {
	case ServiceIFP:
		return "ifp"
	case ServiceFlood:
		return "flood"
	}
	return fmt.Sprintf("service-%d", uint8(s))
}

// Endpoint is where a manager listens.
type Endpoint struct {
	Service Service
	Addr    netip.AddrPort
}

func (e Endpoint) String() string { return e.Service.String() + "=" + e.Addr.String() }

// MarshalText writes "ifp=192.0.2.1:4141".
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// ParseEndpoint reads "ifp=192.0.2.1:4141" or "flood=[2001:db8::1]:4142".
func ParseEndpoint(s string) (Endpoint, error) {
	name, addr, _ := strings.Cut(s, "=")
	e := Endpoint{Service: ServiceIFP}
	switch name {
	case "ifp":
	case "flood":
		e.Service = ServiceFlood
	default:
		return Endpoint{}, fmt.Errorf("endpoint %q: want ifp=ADDRESS:PORT or flood=ADDRESS:PORT", s)
	}
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || ap.Port() == 0 {
		return Endpoint{}, fmt.Errorf("endpoint %q: want ADDRESS:PORT after the =, as in ifp=192.0.2.1:4141", s)
	}
	e.Addr = netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
	return e, nil
}

// Slot names what a record is about: of the records with one slot, only the one
// with the highest serial counts.
type Slot [16]byte

// Digest names the bytes of a record.
type Digest [16]byte

// Record is one binding. It must not be changed once it has been decoded:
// stores and simulated nodes share it.
type Record struct {
	Role      Role           `json:"role"`
	Prefixes  []netip.Prefix `json:"prefixes"`
	Endpoints []Endpoint     `json:"endpoints"`
	Key       Key            `json:"key"`
	Serial    uint64         `json:"serial"`
	NotBefore int64          `json:"not_before"` // Unix seconds
	NotAfter  int64          `json:"not_after"`  // Unix seconds
	Issuer    Key            `json:"issuer"`
	Revoked   bool           `json:"revoked"`

	raw    []byte
	slot   Slot
	digest Digest
}

// Raw is the signed record as it travels. It must not be changed.
func (r *Record) Raw() []byte { return r.raw }

// Slot names what the record is about.
func (r *Record) Slot() Slot { return r.slot }

// Digest names the record's bytes.
func (r *Record) Digest() Digest { return r.digest }

// Governs reports whether other records may depend on this one: authorities and
// revocations of keys are exchanged before everything else.
func (r *Record) Governs() bool { return r.Role == Authority || r.Role == WholeKey }

// Supersedes reports whether r replaces old in their slot. Serials decide; an
// issuer that signs one serial twice is settled by digest, the same everywhere.
func (r *Record) Supersedes(old *Record) bool {
	if r.Serial != old.Serial {
		return r.Serial > old.Serial
	}
	return string(r.digest[:]) > string(old.digest[:])
}

// Covers reports whether every address of p is in one of the record's prefixes.
func (r *Record) Covers(p netip.Prefix) bool { return coveredBy(p, r.Prefixes) }

// CheckTime checks whether the record is valid at now, with tolerance Skew.
func (r *Record) CheckTime(now time.Time) error {
	sec, skew := now.Unix(), int64(Skew/time.Second)
	if sec < r.NotBefore-skew {
		return refuse(NotYetValid, "not valid before %s; check the clocks", unixText(r.NotBefore))
	}
	if sec > r.NotAfter+skew {
		return refuse(Expired, "expired at %s; ask its issuer for a new one", unixText(r.NotAfter))
	}
	return nil
}

// SlotOf computes the slot of (issuer, key, role).
func SlotOf(issuer, key Key, role Role) Slot {
	var in [len("tidegate slot 1") + 32 + 32 + 1]byte
	n := copy(in[:], "tidegate slot 1")
	n += copy(in[n:], issuer[:])
	n += copy(in[n:], key[:])
	in[n] = byte(role)
	sum := sha256.Sum256(in[:])
	return Slot(sum[:16])
}

// DigestOf computes the digest of a signed record's bytes.
func DigestOf(raw []byte) Digest {
	sum := sha256.Sum256(raw)
	return Digest(sum[:16])
}

func coveredBy(p netip.Prefix, list []netip.Prefix) bool {
	for _, q := range list {
		if q.Bits() <= p.Bits() && q.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

func unixText(sec int64) string { return time.Unix(sec, 0).UTC().Format(time.RFC3339) }
