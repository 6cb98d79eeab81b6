// SPDX-License-Identifier: Apache-2.0

// Package fleet distributes one desired state to many gates by NATS JetStream, and collects their reports (docs/fleet.md). The desired
// state is a key of a key-value bucket, its revision is the bucket's; a report is a key for each node in another bucket. It knows no
// packet path and no files: a node applies what it is told through Gate. Secrets never pass through here.
package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"tidegate/internal/config"
	"tidegate/internal/sourcelist"
)

// Desired is what an operator wants of every node. What a node does not have (a service of that name, lists) it leaves out.
type Desired struct {
	// Groups are names for several nodes, which `nodes` of services may use.
	Groups map[string][]string `yaml:"groups" json:"groups,omitempty"`
	// Services are protected beside those of the node's configuration, in the place of those with the same names.
	Services config.FleetServices   `yaml:"services" json:"services,omitempty"`
	Modes    map[string]config.Mode `yaml:"modes" json:"modes,omitempty"` // by name of service; they override the node's configuration
	Allow    []string               `yaml:"allow" json:"allow,omitempty"` // lines as those of docs/lists.md
	Deny     []string               `yaml:"deny" json:"deny,omitempty"`
	// Limits override the node's configuration where they can be changed live.
	Limits config.Limits `yaml:"limits" json:"limits,omitempty"`
	// Detector are settings of the detector, likewise; their names are without config.DetectorField.
	Detector config.Limits `yaml:"detector" json:"detector,omitempty"`
	// Fleet are limits of all nodes together.
	Fleet FleetLimits `yaml:"fleet_limits" json:"fleet_limits,omitzero"`
	// Offers are what edges offer in SYN-ACKs of a service, and servers adopt with.
	Offers config.Offers `yaml:"offers" json:"offers,omitempty"`
	// Secret is the next one; nil: none is announced.
	Secret *Secret `yaml:"secret" json:"secret,omitempty"`
}

// MaxEntries bounds both lists together: a value of the bucket has a mebibyte.
const MaxEntries = 10_000

// Parse reads a desired state in YAML or JSON and refuses what a node would refuse.
func Parse(text []byte) (*Desired, error) {
	d := &Desired{}
	if len(bytes.TrimSpace(text)) == 0 {
		return d, nil
	}
	if err := yaml.UnmarshalWithOptions(text, d, yaml.Strict()); err != nil {
		return nil, errors.New(strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	return d, d.Validate()
}

// Validate checks what does not depend on the node.
func (d *Desired) Validate() error {
	fields := config.Fields()
	words := fields[slices.IndexFunc(fields, func(f config.Field) bool { return f.Name == "services.mode" })].Words
	for service, mode := range d.Modes {
		if !slices.Contains(words, string(mode)) {
			return fmt.Errorf("modes.%s: %q is no mode; use one of %s", service, mode, strings.Join(words, ", "))
		}
	}
	room := MaxEntries
	for _, list := range []struct {
		lines   []string
		verdict sourcelist.Verdict
	}{{d.Allow, sourcelist.Allow}, {d.Deny, sourcelist.Deny}} {
		if len(list.lines) > room {
			return fmt.Errorf("more than %d entries in `allow` and `deny`; put longer lists into files of the nodes (allow_list, deny_list)", MaxEntries)
		}
		room -= len(list.lines)
		for i, line := range list.lines {
			if strings.ContainsAny(line, "\r\n") {
				return fmt.Errorf("%s, entry %d: more than one line", list.verdict, i+1)
			}
			if _, err := sourcelist.Read(strings.NewReader(line), list.verdict.String(), list.verdict, 0, 1, nil); err != nil {
				var wrong *sourcelist.LineError
				if errors.As(err, &wrong) {
					err = wrong.Err
				}
				return fmt.Errorf("%s, entry %d: %w", list.verdict, i+1, err)
			}
		}
	}
	if d.Fleet.NewPerSecond < 0 || d.Fleet.NewPerSecond > mostSource {
		return fmt.Errorf("fleet_limits.new_per_second: %d is out of range; want 0 to %.0f", d.Fleet.NewPerSecond, mostSource)
	}
	return errors.Join(d.Services.Validate(d.Groups), d.Limits.ValidateLimits(), d.Detector.ValidateDetector(), d.Offers.Validate(), d.Secret.validate())
}

// version of the values; a node that meets a later one refuses it and keeps what it has.
const version = 1

// stored is a value of the bucket.
type stored struct {
	Version int       `json:"version"`
	Desired Desired   `json:"desired"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Only    []string  `json:"only,omitempty"` // nodes for which it holds as yet; none: all
	Why     string    `json:"why,omitempty"`
	Back    uint64    `json:"back,omitempty"` // the revision whose state this one brings back
	Rest    *Rest     `json:"rest,omitempty"` // what holds for nodes that are not in Only
	// Before is how many conditions each of Only had when the roll-out began.
	Before map[string]int `json:"before,omitempty"`
}

// decode reads a value. Whatever is in the bucket, it returns a valid state or an error.
func decode(value []byte) (*stored, error) {
	s := &stored{}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("not a desired state: %w", err)
	}
	if s.Version != version {
		return nil, fmt.Errorf("a desired state of version %d; this program knows version %d", s.Version, version)
	}
	if s.Rest != nil {
		if err := s.Rest.Desired.Validate(); err != nil {
			return nil, fmt.Errorf("for the nodes that are no canaries: %w", err)
		}
	}
	return s, s.Desired.Validate()
}

// Report is what a node says of itself.
type Report struct {
	Node      string                 `json:"node"`
	Version   string                 `json:"version"`  // of tidegate
	Role      string                 `json:"role"`     //
	Revision  uint64                 `json:"revision"` // applied; 0: none
	Refused   uint64                 `json:"refused,omitempty"`
	Error     string                 `json:"error,omitempty"`     // why that was refused
	Modes     map[string]config.Mode `json:"modes,omitempty"`     // in force
	Degraded  []string               `json:"degraded,omitempty"`  // conditions
	Attacks   map[string]string      `json:"attacks,omitempty"`   // services whose SYNs are answered because of one, and by whose word: names of nodes, or "here"
	Offers    config.Offers          `json:"offers,omitempty"`    // of a server that adopts: what its kernel offers for each service
	Offenders []Offender             `json:"offenders,omitempty"` // the sources that are most above their limit
	Sources   *SourceSummary         `json:"sources,omitempty"`   // the most active ones, where the fleet has a limit for all nodes together
	Key       string                 `json:"key,omitempty"`       // a fingerprint of the secret: equal secrets have equal ones
	NextKey   string                 `json:"next_key,omitempty"`  // of the secret that follows at
	NextFrom  time.Time              `json:"next_from,omitzero"`  //
	At        time.Time              `json:"at"`                  // by the node's clock
}
