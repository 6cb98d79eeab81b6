// SPDX-License-Identifier: Apache-2.0

package probe

// driverFacts are what a driver refuses or does worse in native XDP. Each was read in the driver's source in Linux 6.12.117
// (Debian 12's backports), in the function named; ena and netvsc also in a later tree, where they were the same. None was tested
// on such a device.
type driverFacts struct {
	// mtuMax is for frames that must lie in one page of 4096 bytes; drivers that
	// give frames in several pieces (the kernel says which do) take any for our programs. 0: the driver asks nothing of ours.
	mtuMax int
	// noLRO, noGroHW: refused while LRO, or hardware GRO, is on.
	noLRO, noGroHW bool
	// hidesXDP: with those on, the driver does not even report XDP.
	hidesXDP bool
	// guestOffloads: refused if the host uses offloads that cannot be switched off from here (virtioRefusal).
	guestOffloads bool
	// halfChannels: refused with more channels than half of the maximum.
	halfChannels bool
	// sharedTx: one transmit queue per CPU in addition to the channels, or answers share queues under a lock.
	sharedTx bool
	// cpusMax is the most CPUs; 0: any.
	cpusMax int
	// noVFs: refused while the device has virtual functions.
	noVFs bool
	// legacyRx: the private flag legacy-rx removes the headroom before frames.
	legacyRx bool
	source   string
}

// onRecord are the drivers by ethtool's names. Sizes: Ethernet header 14, FCS 4, VLAN tag 4,
// XDP headroom 256, skb_shared_info 320.
var onRecord = map[string]driverFacts{
	"ena": {mtuMax: 4096 - 256 - 320 - 14 - 4 - 4, halfChannels: true, source: "amazon/ena/ena_xdp.c, ena_xdp_set; ena_xdp.h, ENA_XDP_MAX_MTU, ena_xdp_legal_queue_count"},
	// The MTU limit of virtnet_xdp_set is for programs without frags; ours have them.
	"virtio_net": {guestOffloads: true, sharedTx: true, source: "virtio_net.c, virtnet_xdp_set"},
	"mlx5_core":  {mtuMax: 4096 - 256 - 320 - 14 - 4 - 4, noLRO: true, noGroHW: true, hidesXDP: true, source: "mellanox/mlx5/core/en_main.c, mlx5e_xdp_allowed, mlx5e_set_xdp_feature"},
	// Rounded up to cache lines: 64 * ((4096 - 256 - 320) / 64) - 14. A virtual function beside it gets the same program (netvsc_vf_setxdp).
	"hv_netvsc": {mtuMax: 4096 - 256 - 320 - 14, noLRO: true, source: "hyperv/netvsc_bpf.c, netvsc_xdp_set"},
	"ixgbe":     {mtuMax: 3072 - 14 - 4 - 4, noLRO: true, cpusMax: 2 * 64, noVFs: true, legacyRx: true, source: "intel/ixgbe/ixgbe_main.c, ixgbe_xdp_setup"},
	"i40e":      {mtuMax: 3072 - 14 - 4 - 2*4, legacyRx: true, source: "intel/i40e/i40e_main.c, i40e_xdp_setup; i40e_txrx.h, I40E_PACKET_HDR_PAD"},
	"ice":       {mtuMax: 3072 - 14 - 4 - 2*4, legacyRx: true, source: "intel/ice/ice_main.c, ice_xdp_setup_prog; ice_txrx.h, ICE_ETH_PKT_HDR_PAD"},
}

// Bits of virtio_net.h and virtio_config.h.
const (
	virtioGuestCsum         = 1
	virtioCtrlGuestOffloads = 2
	virtioMergeable         = 15
	virtioAnyLayout         = 27
	virtioVersion1          = 32
)

// virtioRefusal returns which virtio features, as /sys/class/net/*/device/features has them, make native XDP impossible.
func virtioRefusal(features string) (found, fix string) {
	has := func(bit int) bool { return bit < len(features) && features[bit] == '1' }
	if has(virtioMergeable) && !has(virtioAnyLayout) && !has(virtioVersion1) {
		return "the device is an old one: it wants its header in a buffer of its own", "give the virtual machine a device of virtio 1.0 (`disable-modern=off`)"
	}
	if has(virtioCtrlGuestOffloads) {
		return "", ""
	}
	const tso4, tso6, ecn, ufo, uso4, uso6 = 7, 8, 9, 10, 54, 55
	for _, bit := range []int{virtioGuestCsum, tso4, tso6, ecn, ufo, uso4, uso6} {
		if has(bit) {
			return "the host leaves out checksums or merges segments, and does not let that be switched off",
				"give the virtual machine's device `ctrl_guest_offloads=on`, or `guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off`"
		}
	}
	return "", ""
}
