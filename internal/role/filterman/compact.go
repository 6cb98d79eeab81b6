// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"net/netip"
	"slices"
	"time"
)

// A manager has millions of filters: their words are numbers in memory and words in JSON, and their times are numbers. Of an int8, not of
// a uint8, `go vet` says that string() does not make a word.

// Witness is how a detector knows that a source is true.
type Witness int8

// Witnesses.
const (
	NoWitness   Witness = iota
	SeenTS              // its packets came with the true-source codepoint
	SeenNoTS            // they came without it
	Handshake           // it has completed a handshake with a gate
	SeenUnknown         // so is a word that this version does not know
)

var witnessWords = []string{"", "ts", "no-ts", "handshake", "unknown"}

// WitnessOf is the witness of a word.
func WitnessOf(word string) Witness {
	if i := slices.Index(witnessWords, word); i >= 0 {
		return Witness(i)
	}
	return SeenUnknown
}

func (w Witness) String() string { return witnessWords[w] }

// MarshalText implements encoding.TextMarshaler.
func (w Witness) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *Witness) UnmarshalText(word []byte) error {
	*w = WitnessOf(string(word))
	return nil
}

// State of a filter at this manager.
type State int8

// States.
const (
	NoState State = iota
	Asked
	Installed
	Partial // installed by some of several border managers
	Refused
	Gone // of one of several border managers: it no longer has the filter
)

var stateWords = []string{"", "asked", "installed", "partial", "refused", "gone"}

func (s State) String() string { return stateWords[s] }

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. A word that this version does not know is no state.
func (s *State) UnmarshalText(word []byte) error {
	*s = State(max(slices.Index(stateWords, string(word)), 0))
	return nil
}

// Instant is a time, in nanoseconds since this process began, so that a clock that is set changes no filter's age. 0: none.
type Instant int64

var began = time.Now()

// InstantOf is the instant of a time.
func InstantOf(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	if i := Instant(t.Sub(began)); i != 0 {
		return i
	}
	return 1
}

// Time is the time of an instant.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return began.Add(time.Duration(i))
}

// MarshalText implements encoding.TextMarshaler.
func (i Instant) MarshalText() ([]byte, error) { return i.Time().MarshalText() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *Instant) UnmarshalText(text []byte) error {
	var t time.Time
	err := t.UnmarshalText(text)
	*i = InstantOf(t)
	return err
}

// noAddr is the address of a filter that several border managers have.
var noAddr netip.AddrPort
