// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"
)

// telemetryMost is the longest answer that DPDK's telemetry gives.
const telemetryMost = 64 << 10

// RuntimeDir is where DPDK keeps the sockets of a program with this file prefix
// that was started by root.
func RuntimeDir(prefix string) string { return filepath.Join("/var/run/dpdk", prefix) }

// Telemetry sends a running program one request and decodes the answer into v.
func Telemetry(prefix, command string, v any) error {
	conn, err := dial(filepath.Join(RuntimeDir(prefix), "dpdk_telemetry.v2"))
	if err != nil {
		return fmt.Errorf("telemetry of tidegate-dpdk: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	buf := make([]byte, telemetryMost)
	if _, err := conn.Read(buf); err != nil { // the greeting
		return fmt.Errorf("telemetry of tidegate-dpdk: %w", err)
	}
	if _, err := conn.Write([]byte(command)); err != nil {
		return fmt.Errorf("telemetry of tidegate-dpdk: %w", err)
	}
	n, err := conn.Read(buf)
	if err != nil {
		return fmt.Errorf("telemetry of tidegate-dpdk: %w", err)
	}
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(buf[:n], &answer); err != nil {
		return fmt.Errorf("telemetry of tidegate-dpdk: %s: %w", command, err)
	}
	for _, value := range answer { // the only entry
		if string(value) == "null" {
			return fmt.Errorf("telemetry of tidegate-dpdk: it does not know the request %s", command)
		}
		return json.Unmarshal(value, v)
	}
	return fmt.Errorf("telemetry of tidegate-dpdk: %s: an empty answer", command)
}

// Counters are those of one service that are not zero.
func Counters(prefix string, id uint32) (map[string]uint64, error) {
	c := map[string]uint64{}
	return c, Telemetry(prefix, fmt.Sprintf("/tidegate/counters,%d", id), &c)
}

// State is what a running program reports about itself.
type State struct {
	DPDK    string `json:"dpdk"`
	Hash    string `json:"hash"`
	Cores   int    `json:"cores"`
	Ports   int    `json:"ports"`
	Flows   int    `json:"flows"`
	Full    int    `json:"flows_full"` // cores without room for newcomers' flows
	Swaps   uint64 `json:"flow_swaps"` // of the flow tables, on all cores
	Sources int    `json:"sources"`

	ShortSYNs     uint64 `json:"fast_path_syns"` // frames on the fast path (docs/dpdk.md)
	ShortSegments uint64 `json:"fast_path_segments"`
	ICMPErrors    uint64 `json:"icmp_errors"` // sent by a router
	Capturing     int    `json:"capturing"`   // cores with a capture
}

// ReadState requests the state.
func ReadState(prefix string) (s State, err error) {
	return s, Telemetry(prefix, "/tidegate/status", &s)
}

// ReadConfig requests the configuration in force: settings by name, of tables a digest, and the settings of these services by
// SERVICE.NAME.
func ReadConfig(prefix string, services ...uint32) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if err := Telemetry(prefix, "/tidegate/config", &all); err != nil {
		return nil, err
	}
	for _, id := range services {
		one := map[string]json.RawMessage{}
		if err := Telemetry(prefix, fmt.Sprintf("/tidegate/service,%d", id), &one); err != nil {
			return nil, err
		}
		for name, value := range one {
			all[fmt.Sprintf("%d.%s", id, name)] = value
		}
	}
	return all, nil
}

// ReadPID requests a running program's process id.
func ReadPID(prefix string) (pid int, err error) {
	var info struct {
		PID int `json:"pid"`
	}
	return info.PID, Telemetry(prefix, "/info", &info)
}
