// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"regexp"
	"time"
)

// Secret announces the next secret of all nodes. The secret itself never passes through here.
type Secret struct {
	Key  string    `yaml:"key" json:"key"`   // its key id
	From time.Time `yaml:"from" json:"from"` // next_secret_from of all nodes
}

var keyID = regexp.MustCompile(`^[0-9a-f]{8}$`)

func (s *Secret) validate() error {
	switch {
	case s == nil:
		return nil
	case !keyID.MatchString(s.Key):
		return fmt.Errorf("secret.key: %q is no key id: want 8 hexadecimal digits, as `tidegate fleet status` shows them; never the secret itself", s.Key)
	case s.From.IsZero():
		return fmt.Errorf("secret.from: missing; want a time such as 2027-01-31T12:00:00Z")
	}
	return nil
}

func (s *Secret) String() string {
	if s == nil {
		return "none announced"
	}
	return s.Key + " from " + s.From.UTC().Format(time.RFC3339)
}

// inUse is the id of the key that a node uses.
func (r *Report) inUse() string {
	if r.NextKey != "" && !r.NextFrom.After(r.At) {
		return r.NextKey
	}
	return r.Key
}

// lacks says how a node is not ready for the announced secret; nothing if it is.
func (s *Secret) lacks(r *Report) string {
	from := ""
	if s != nil {
		from = s.From.UTC().Format(time.RFC3339)
	}
	switch {
	case s == nil || r.inUse() == s.Key:
		return ""
	case !s.From.After(r.At):
		return fmt.Sprintf("uses secret %s, but the fleet has rolled to %s at %s", r.inUse(), s.Key, from)
	case r.NextKey != s.Key:
		return fmt.Sprintf("does not have secret %s, announced for %s: install it as next_secret_file", s.Key, from)
	case !r.NextFrom.Equal(s.From):
		return fmt.Sprintf("rolls to secret %s at %s, announced for %s: correct next_secret_from", s.Key, r.NextFrom.UTC().Format(time.RFC3339), from)
	}
	return ""
}
