// SPDX-License-Identifier: Apache-2.0

package ifp

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/dchest/siphash"

	"tidegate/internal/keys"
)

// Nonces makes and checks nonces with the keys of the present and the previous
// epoch of a secret, and stores nothing about the senders. Safe for
// concurrent use; call Tick at least once an epoch.
type Nonces struct {
	secret keys.Secret
	now    atomic.Pointer[nonceKeys]
}

// NonceEpoch is how long a key makes nonces; each nonce is valid for one to two of these.
const NonceEpoch = 8 * time.Second

type nonceKeys struct {
	epoch  uint64
	k0, k1 [2]uint64 // by parity of the epoch
}

// NewNonces starts with the key of the current epoch.
func NewNonces(secret *keys.Secret, now time.Time) *Nonces {
	n := &Nonces{secret: *secret}
	n.Tick(now)
	return n
}

// Tick loads the keys of the current epoch.
func (n *Nonces) Tick(now time.Time) {
	epoch := keys.Epoch(now, NonceEpoch)
	if k := n.now.Load(); k != nil && k.epoch == epoch {
		return
	}
	k := &nonceKeys{epoch: epoch}
	for _, e := range []uint64{epoch - 1, epoch} {
		key := n.secret.EpochKey(e)
		k.k0[e&1] = binary.LittleEndian.Uint64(key[:8])
		k.k1[e&1] = binary.LittleEndian.Uint64(key[8:])
	}
	n.now.Store(k)
}

// Make returns the nonce for a request; its lowest bit is the parity of the epoch.
// Never 0, which means "no nonce".
func (n *Nonces) Make(from netip.AddrPort, message []byte) uint64 {
	k := n.now.Load()
	return k.make(k.epoch&1, from, message)
}

// Verify reports whether the message's nonce is one that we recently made for exactly this
// request from exactly this sender.
func (n *Nonces) Verify(from netip.AddrPort, message []byte) bool {
	nonce := binary.BigEndian.Uint64(message[16:])
	k := n.now.Load()
	return nonce != 0 && nonce == k.make(nonce&1, from, message)
}

// NonceInputMax is the length of the longest input of a nonce's hash.
const NonceInputMax = nonceHeadLen + MaxDatagram

const nonceHeadLen = 32

// make hashes the sender's address (16 bytes; IPv4 mapped) and port, the first
// eight bytes of the message without length and code, the request number, and the filters.
func (k *nonceKeys) make(parity uint64, from netip.AddrPort, message []byte) uint64 {
	var buf [NonceInputMax]byte
	addr := from.Addr().As16()
	copy(buf[:], addr[:])
	binary.BigEndian.PutUint16(buf[16:], from.Port())
	buf[18], buf[19], buf[20] = message[0], message[1], message[4]
	copy(buf[22:24], message[6:8])
	copy(buf[24:32], message[8:16])
	n := nonceHeadLen + copy(buf[nonceHeadLen:], message[HeaderLen:])
	nonce := siphash.Hash(k.k0[parity], k.k1[parity], buf[:n])&^1 | parity
	if nonce == 0 {
		nonce = 2
	}
	return nonce
}

// Key is the present epoch's key and parity, for the packet path, which makes nonces
// on our behalf.
func (n *Nonces) Key() (parity, k0, k1 uint64) {
	k := n.now.Load()
	p := k.epoch & 1
	return p, k.k0[p], k.k1[p]
}
