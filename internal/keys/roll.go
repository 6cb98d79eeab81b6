// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"fmt"
	"sync"
	"time"
)

// Roll is the secret of a fleet over time: one, or one and the next from some epoch
// on. Each epoch has keys of exactly one of them, the same on every machine, so that no
// cookie and no tag is lost when a secret is replaced. Safe for concurrent use.
type Roll struct {
	mu          sync.RWMutex
	first, next *Secret
	from        uint64 // first epoch of next
}

// LoadRoll reads the secret at path and, if nextPath is not empty, the one that replaces
// it in the first epoch that begins at `from` or later.
func LoadRoll(path, nextPath string, from time.Time, epoch time.Duration) (*Roll, error) {
	r := &Roll{}
	var err error
	if r.first, err = LoadSecret(path); err != nil {
		return nil, err
	}
	if nextPath == "" {
		return r, nil
	}
	if r.next, err = LoadSecret(nextPath); err != nil {
		r.Zero()
		return nil, err
	}
	if r.from = Epoch(from, epoch); EpochStart(r.from, epoch).Before(from) {
		r.from++
	}
	return r, nil
}

// Prepare prepares the secrets of a reload to replace r's: commit does it, and makes l
// load the keys of all later epochs again; drop discards them. It refuses to change a key
// in use now, here or where clocks are ahead by skew: handshakes under way would fail.
func (r *Roll) Prepare(next *Roll, l *Loader, now time.Time, skew, epoch time.Duration) (commit, drop func(), err error) {
	present, ahead := Epoch(now, epoch), Epoch(now.Add(skew), epoch)
	for n := present; n <= ahead; n++ {
		if r.EpochKey(n) != next.EpochKey(n) {
			next.Zero()
			return nil, nil, fmt.Errorf("%w: a key that is in use now would change, and handshakes under way would fail; "+
				"name the new secret in next_secret_file, and in next_secret_from a time that lies after the last machine's reload, here after %s",
				ErrSecret, EpochStart(ahead+1, epoch).UTC().Format(time.RFC3339))
		}
	}
	return func() {
		r.mu.Lock()
		old := [2]*Secret{r.first, r.next}
		r.first, r.next, r.from = next.first, next.next, next.from
		for _, s := range old {
			if s != nil {
				s.Zero()
			}
		}
		r.mu.Unlock()
		l.ReloadFrom(ahead + 1)
	}, next.Zero, nil
}

// of is the secret of an epoch; the caller holds the lock.
func (r *Roll) of(epoch uint64) *Secret {
	if r.next != nil && epoch >= r.from {
		return r.next
	}
	return r.first
}

// FirstTagKey is the tag key of epoch n of the secret before the roll.
func (r *Roll) FirstTagKey(n uint64) [EpochKeyLen]byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.first.TagKey(n)
}

// EpochKey and the following methods use the secret of epoch n.
func (r *Roll) EpochKey(n uint64) [EpochKeyLen]byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.of(n).EpochKey(n)
}

// TagKey: see EpochKey.
func (r *Roll) TagKey(n uint64) [EpochKeyLen]byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.of(n).TagKey(n)
}

// ConfirmKey: see EpochKey.
func (r *Roll) ConfirmKey(n uint64) [EpochKeyLen]byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.of(n).ConfirmKey(n)
}

// SyncKey: see EpochKey.
func (r *Roll) SyncKey(n uint64) [EpochKeyLen]byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.of(n).SyncKey(n)
}

// SmartKey: see EpochKey.
func (r *Roll) SmartKey(n uint64) [SmartKeyLen]byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.of(n).SmartKey(n)
}

// Zero clears both secrets.
func (r *Roll) Zero() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range []*Secret{r.first, r.next} {
		if s != nil {
			s.Zero()
		}
	}
}
