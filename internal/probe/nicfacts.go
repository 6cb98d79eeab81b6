// SPDX-License-Identifier: Apache-2.0

package probe

// driverFacts is what is on record of a driver in native XDP: what it refuses, from the
// driver's source in Linux 6.18, which is named. Nobody was asked and nothing was tried here.
type driverFacts struct {
	// mtuMax is for a program whose frames must lie in one page of 4096 bytes; drivers that
	// give frames in several pieces (the kernel says which do) take any for our programs.
	mtuMax int
	// noMerging: refused while LRO or hardware GRO is on.
	noMerging bool
	// fixedGRO: refused where hardware GRO is on and cannot be switched off.
	fixedGRO bool
	// halfChannels: refused with more channels than half of the maximum.
	halfChannels bool
	// sharedTx: one transmit queue a CPU on top of the channels, or answers take turns.
	sharedTx bool
	// cpusMax is the most CPUs; 0: any.
	cpusMax int
	source  string
}

// onRecord are the drivers by what ethtool calls them. Sizes: Ethernet header 14, FCS 4, VLAN tag 4,
// XDP headroom 256, skb_shared_info 320.
var onRecord = map[string]driverFacts{
	"ena":        {mtuMax: 4096 - 256 - 320 - 14 - 4 - 4, halfChannels: true, source: "amazon/ena/ena_xdp.c, ena_xdp_set; ena_xdp.h, ENA_XDP_MAX_MTU"},
	"virtio_net": {mtuMax: 4096 - 256 - 320 - 14, fixedGRO: true, sharedTx: true, source: "virtio_net.c, virtnet_xdp_set"},
	"mlx5_core":  {mtuMax: 4096 - 256 - 320 - 14 - 4 - 4, noMerging: true, source: "mellanox/mlx5/core/en_main.c, mlx5e_xdp_allowed and mlx5e_params_validate_xdp"},
	"hv_netvsc":  {mtuMax: 4096 - 256 - 320 - 14, noMerging: true, source: "hyperv/netvsc_bpf.c, netvsc_xdp_set"},
	"ixgbe":      {mtuMax: 3072 - 14 - 4 - 4, noMerging: true, cpusMax: 128, source: "intel/ixgbe/ixgbe_main.c, ixgbe_xdp_setup"},
	"i40e":       {mtuMax: 3072 - 14 - 4 - 4, source: "intel/i40e/i40e_main.c, i40e_xdp_setup"},
	"ice":        {mtuMax: 3072 - 14 - 4 - 2*4, source: "intel/ice/ice_main.c, ice_xdp_setup_prog"},
}
