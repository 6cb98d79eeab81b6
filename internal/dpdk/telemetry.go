// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// telemetryMost is the longest answer that DPDK's telemetry gives.
const telemetryMost = 64 << 10

// RuntimeDir is where DPDK keeps the sockets of a program with this file prefix
// that root has started.
func RuntimeDir(prefix string) string { return filepath.Join("/var/run/dpdk", prefix) }

// Telemetry asks a running program one question and reads the answer into v.
func Telemetry(prefix, command string, v any) error {
	conn, err := net.Dial("unixpacket", filepath.Join(RuntimeDir(prefix), "dpdk_telemetry.v2"))
	if err != nil {
		return fmt.Errorf("telemetry of tidegate-dpdk: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	buf := make([]byte, telemetryMost)
	if _, err := conn.Read(buf); err != nil { // who it is
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
	for _, value := range answer { // the only one
		if string(value) == "null" {
			return fmt.Errorf("telemetry of tidegate-dpdk: %s is not known to it", command)
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

// State is what a running program says of itself.
type State struct {
	DPDK    string `json:"dpdk"`
	Hash    string `json:"hash"`
	Cores   int    `json:"cores"`
	Ports   int    `json:"ports"`
	Flows   int    `json:"flows"`
	Full    int    `json:"flows_full"` // cores that have no place for newcomers' flows
	Sources int    `json:"sources"`

	ShortSYNs     uint64 `json:"fast_path_syns"` // frames that went the fast path (docs/dpdk.md)
	ShortSegments uint64 `json:"fast_path_segments"`
	ICMPErrors    uint64 `json:"icmp_errors"` // that a router has sent
}

// ReadState asks for it.
func ReadState(prefix string) (s State, err error) {
	return s, Telemetry(prefix, "/tidegate/status", &s)
}

// ReadPID asks a running program for its process.
func ReadPID(prefix string) (pid int, err error) {
	var info struct {
		PID int `json:"pid"`
	}
	return info.PID, Telemetry(prefix, "/info", &info)
}
