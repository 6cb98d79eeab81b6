// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
)

// routerChild is the hidden subcommand of tidegate-lab that is a BGP router without a forwarding table, as gobgpd is.
const routerChild = "_router"

const (
	gatesAS   = 64512
	routersAS = 64500
)

// learned is a line of a router's standard output: a change of its best path to a prefix.
type learned struct {
	Prefix    string    `json:"prefix"`
	From      string    `json:"from"`
	Withdrawn bool      `json:"withdrawn"`
	At        time.Time `json:"at"`
}

// RunRouterChild is the body of `tidegate-lab _router OWN PEER...`: it waits for the peers' sessions and prints what it learns, until it is killed.
func RunRouterChild(args []string) error {
	if len(args) < 2 {
		return errors.New("want the router's address and those of its peers")
	}
	own, err := netip.ParseAddr(args[0])
	if err != nil {
		return err
	}
	ctx := context.Background()
	level := &slog.LevelVar{}
	level.Set(slog.LevelError)
	s := server.NewBgpServer(server.LoggerOption(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})), level))
	go s.Serve()
	if err := s.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{Asn: routersAS, RouterId: own.String(), ListenPort: 179, ListenAddresses: []string{own.String()}}}); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout) // callbacks are called one after another
	err = s.WatchEvent(ctx, server.WatchEventMessageCallbacks{OnPathUpdate: func(paths []*apiutil.Path, at time.Time) {
		for _, p := range paths {
			_ = out.Encode(learned{Prefix: p.Nlri.String(), From: p.PeerAddress.String(), Withdrawn: p.Withdrawal, At: time.Now()})
		}
	}, OnPeerUpdate: func(e *apiutil.WatchEventMessage_PeerEvent, _ time.Time) {
		if e.Type == apiutil.PEER_EVENT_STATE && e.Peer.State.SessionState != packet.BGP_FSM_ESTABLISHED { // and with the session every route of it
			_ = out.Encode(learned{Prefix: "all", From: e.Peer.State.NeighborAddress.String(), Withdrawn: true, At: time.Now()})
		}
	}}, server.WatchUpdate(true, "", ""), server.WatchPeer())
	if err != nil {
		return err
	}
	for _, peer := range args[1:] {
		err := s.AddPeer(ctx, &api.AddPeerRequest{Peer: &api.Peer{Conf: &api.PeerConf{NeighborAddress: peer, PeerAsn: gatesAS}, Transport: &api.Transport{PassiveMode: true},
			EbgpMultihop: &api.EbgpMultihop{Enabled: true, MultihopTtl: 8},
			AfiSafis:     []*api.AfiSafi{{Config: &api.AfiSafiConfig{Family: &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}, Enabled: true}}}}})
		if err != nil {
			return err
		}
	}
	select {}
}
