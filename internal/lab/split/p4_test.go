// SPDX-License-Identifier: Apache-2.0

package split

import (
	"net"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/lab/rig"
)

// The configuration that the lab writes for a switch is valid; this needs no switch.
func TestSwitchConfigurationIsValid(t *testing.T) {
	for _, o := range []Options{{Mode: "plain", Epoch: time.Second, UnknownRate: "all"}, {Mode: "tagged", Epoch: 8 * time.Second, UnknownRate: "0"}} {
		var ports []*rig.Port
		for i := range 9 {
			ports = append(ports, &rig.Port{MAC: net.HardwareAddr{2, 0, 0, 0, 0, byte(i)}})
		}
		c, err := config.Parse("f", []byte(p4Text("lab-1", "/s", o, 64*o.Epoch, ports)))
		if err != nil {
			t.Fatal(err)
		}
		if c.Plane != config.PlaneP4 || string(c.Edge.Protocol) != o.Mode || len(c.P4.MACs) != 3 || len(c.P4.PortMACs) != 3 || c.P4.PortMACs[2].Dst != "02:00:00:00:00:08" {
			t.Errorf("%+v", c)
		}
	}
}
