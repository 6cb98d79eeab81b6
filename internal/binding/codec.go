// SPDX-License-Identifier: Apache-2.0

// The one encoding of a record: core deterministic CBOR (RFC 8949, 4.2.1) in a
// tagged COSE_Sign1 (RFC 9052). A record that decodes but differs from the
// canonical encoding of its content is refused, so that only the issuer can
// make a second form of it.

package binding

import (
	"bytes"
	"crypto/ed25519"
	"net/netip"

	"github.com/fxamacker/cbor/v2"
	"github.com/veraison/go-cose"
)

// externalAAD binds a signature to this format: it is valid for no other.
var externalAAD = []byte("tidegate binding 1")

type wireEndpoint struct {
	_       struct{} `cbor:",toarray"`
	Service uint8
	Addr    cborAddr
	Port    uint16
}

type wireRecord struct {
	Version   uint64         `cbor:"1,keyasint"`
	Role      uint8          `cbor:"2,keyasint"`
	Prefixes  []cborPrefix   `cbor:"3,keyasint"`
	Endpoints []wireEndpoint `cbor:"4,keyasint"`
	Key       []byte         `cbor:"5,keyasint"`
	Serial    uint64         `cbor:"6,keyasint"`
	NotBefore uint64         `cbor:"7,keyasint"`
	NotAfter  uint64         `cbor:"8,keyasint"`
	Issuer    []byte         `cbor:"9,keyasint"`
	Revoked   bool           `cbor:"10,keyasint"`
}

var (
	encMode = mustEnc(cbor.CoreDetEncOptions())
	decMode = mustDec(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxNestedLevels:   8,
		MaxArrayElements:  MaxPrefixes,
		MaxMapPairs:       16,
	})
)

func mustEnc(o cbor.EncOptions) cbor.EncMode {
	o.NilContainers = cbor.NilContainerAsEmpty
	mode, err := o.EncMode()
	if err != nil {
		panic(err) // constants above are wrong
	}
	return mode
}

func mustDec(o cbor.DecOptions) cbor.DecMode {
	mode, err := o.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}

// Decode reads a signed record and checks all that can be checked from its bytes
// alone, except the signature: see VerifySignature. The record keeps raw, which must not be
// changed afterwards. Errors are *Error.
func Decode(raw []byte) (*Record, error) {
	msg, err := openCOSE(raw)
	if err != nil {
		return nil, err
	}
	var w wireRecord
	if err := decMode.Unmarshal(msg.Payload, &w); err != nil {
		return nil, refuse(Malformed, "payload: %v", err)
	}
	if w.Version != Version {
		return nil, refuse(BadVersion, "version %d; this program knows version %d", w.Version, Version)
	}
	canonical, err := encMode.Marshal(&w)
	if err != nil || !bytes.Equal(canonical, msg.Payload) {
		return nil, refuse(Malformed, "payload is not in deterministic encoding")
	}
	r, err := w.record()
	if err != nil {
		return nil, err
	}
	r.raw, r.digest = raw, DigestOf(raw)
	r.slot = SlotOf(r.Issuer, r.Key, r.Role)
	return r, nil
}

// Parse is Decode and VerifySignature.
func Parse(raw []byte) (*Record, error) {
	r, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	return r, r.VerifySignature()
}

// VerifySignature checks whether the record was signed by the issuer it names.
func (r *Record) VerifySignature() error {
	msg, err := openCOSE(r.raw)
	if err != nil {
		return err
	}
	verifier, err := cose.NewVerifier(cose.AlgorithmEdDSA, ed25519.PublicKey(r.Issuer[:]))
	if err == nil {
		err = msg.Verify(externalAAD, verifier)
	}
	if err != nil {
		return refuse(BadSignature, "not signed by issuer %s", r.Issuer)
	}
	return nil
}

func openCOSE(raw []byte) (*cose.Sign1Message, error) {
	if len(raw) > MaxRecordLen {
		return nil, refuse(Malformed, "%d bytes; a record has at most %d", len(raw), MaxRecordLen)
	}
	msg := new(cose.Sign1Message)
	if err := msg.UnmarshalCBOR(raw); err != nil {
		return nil, refuse(Malformed, "not a COSE_Sign1 message: %v", err)
	}
	alg, err := msg.Headers.Protected.Algorithm()
	if err != nil || alg != cose.AlgorithmEdDSA || len(msg.Headers.Protected) != 1 || len(msg.Headers.Unprotected) != 0 {
		return nil, refuse(Malformed, "the only header is the protected algorithm EdDSA")
	}
	if len(msg.Signature) != ed25519.SignatureSize {
		return nil, refuse(Malformed, "signature of %d bytes, not %d", len(msg.Signature), ed25519.SignatureSize)
	}
	// The library keeps the headers' bytes as received; re-encode them.
	msg.Headers.RawProtected, msg.Headers.RawUnprotected = nil, nil
	canonical, err := msg.MarshalCBOR()
	if err != nil || !bytes.Equal(canonical, raw) {
		return nil, refuse(Malformed, "COSE_Sign1 is not in deterministic encoding")
	}
	return msg, nil
}

func (w *wireRecord) record() (*Record, error) {
	r := &Record{Role: Role(w.Role), Serial: w.Serial, Revoked: w.Revoked}
	if len(w.Key) != len(r.Key) || len(w.Issuer) != len(r.Issuer) {
		return nil, refuse(BadField, "keys have %d bytes", len(r.Key))
	}
	copy(r.Key[:], w.Key)
	copy(r.Issuer[:], w.Issuer)
	if w.NotBefore > maxTime || w.NotAfter > maxTime {
		return nil, refuse(BadField, "a time is beyond year 36000")
	}
	r.NotBefore, r.NotAfter = int64(w.NotBefore), int64(w.NotAfter)
	r.Prefixes = make([]netip.Prefix, len(w.Prefixes))
	for i, p := range w.Prefixes {
		r.Prefixes[i] = netip.Prefix(p)
	}
	r.Endpoints = make([]Endpoint, len(w.Endpoints))
	for i, e := range w.Endpoints {
		r.Endpoints[i] = Endpoint{Service(e.Service), netip.AddrPortFrom(netip.Addr(e.Addr), e.Port)}
	}
	return r, r.check()
}

func (r *Record) wire() *wireRecord {
	w := &wireRecord{Version: Version, Role: uint8(r.Role), Key: r.Key[:], Serial: r.Serial, NotBefore: uint64(r.NotBefore),
		NotAfter: uint64(r.NotAfter), Issuer: r.Issuer[:], Revoked: r.Revoked}
	for _, p := range r.Prefixes {
		w.Prefixes = append(w.Prefixes, cborPrefix(p))
	}
	for _, e := range r.Endpoints {
		w.Endpoints = append(w.Endpoints, wireEndpoint{Service: uint8(e.Service), Addr: cborAddr(e.Addr.Addr()), Port: e.Addr.Port()})
	}
	return w
}

// check verifies that every field is within its limits.
func (r *Record) check() error {
	switch {
	case r.Role < BorderManager || r.Role > WholeKey:
		return refuse(BadField, "role %d is not known", r.Role)
	case r.Key == r.Issuer:
		return refuse(BadField, "a key cannot bind itself; the issuer signs with a key of its own")
	case r.Serial == 0 || r.Serial >= 1<<63:
		return refuse(BadField, "serial %d: want 1 to 2^63-1", r.Serial)
	case r.NotBefore < 0 || r.NotAfter <= r.NotBefore:
		return refuse(BadField, "not-after must be later than not-before")
	case r.Role == WholeKey && !r.Revoked:
		return refuse(BadField, "role key can only be revoked")
	}
	if err := r.checkValidity(); err != nil {
		return err
	}
	if err := r.checkEndpoints(); err != nil {
		return err
	}
	switch n := len(r.Prefixes); {
	case r.Revoked && (n > 0 || len(r.Endpoints) > 0):
		return refuse(BadField, "a revocation has neither prefixes nor endpoints")
	case !r.Revoked && n == 0:
		return refuse(BadField, "no prefix; name at least one")
	case n > MaxPrefixes:
		return refuse(BadField, "%d prefixes; a record has at most %d", n, MaxPrefixes)
	}
	return checkPrefixes(r.Prefixes)
}

func (r *Record) checkValidity() error {
	seconds := func(d int64) int64 { return d / 1e9 }
	span := r.NotAfter - r.NotBefore
	if !r.Revoked && span > seconds(int64(MaxValidity)) {
		return refuse(BadField, "valid for %d days; at most %d", span/86400, MaxValidity/(24*3600e9))
	}
	if r.Revoked && (span < seconds(int64(MinRevocation)) || span > seconds(int64(MaxRevocation))) {
		return refuse(BadField, "a revocation is valid for %d to %d days, not %d", MinRevocation/(24*3600e9),
			MaxRevocation/(24*3600e9), span/86400)
	}
	return nil
}

func (r *Record) checkEndpoints() error {
	manager := r.Role == BorderManager || r.Role == FilterManager
	if manager && !r.Revoked && len(r.Endpoints) == 0 {
		return refuse(BadField, "no endpoint; name at least one, as ifp=ADDRESS:PORT")
	}
	if len(r.Endpoints) > MaxEndpoints {
		return refuse(BadField, "%d endpoints; a record has at most %d", len(r.Endpoints), MaxEndpoints)
	}
	for _, e := range r.Endpoints {
		addr := e.Addr.Addr()
		if e.Service != ServiceIFP && e.Service != ServiceFlood {
			return refuse(BadField, "endpoint service %d is not known", e.Service)
		}
		if e.Addr.Port() == 0 || !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() || addr.Is4In6() {
			return refuse(BadField, "endpoint %s is not an address and port of one host", e)
		}
	}
	return nil
}
