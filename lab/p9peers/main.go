// Command p9peers is other people's 9P clients and servers, for Sluice to be tried against.
package main

import (
	"fmt"
	"log"
	"net"
	"os"

	"github.com/hugelgupf/p9/fsimpl/localfs"
	"github.com/hugelgupf/p9/p9"
)

const usage = `usage: p9peers COMMAND
  l UNIX-SOCKET           try a server: hugelgupf/p9, which offers 9P2000.L.Google.7
  plan9 UNIX-SOCKET       try a server: 9fans.net/go, which speaks 9P2000
  serve UNIX-SOCKET DIR   be a server: hugelgupf/p9`

func main() {
	log.SetFlags(0)
	log.SetPrefix("p9peers: ")
	arguments := append(os.Args[1:], "", "", "")
	var err error
	switch arguments[0] {
	case "l":
		err = try(arguments[1], tryL)
	case "plan9":
		err = try(arguments[1], tryPlan9)
	case "serve":
		err = serve(arguments[1], arguments[2])
	default:
		log.Fatal(usage)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// try connects, and lets a client do all it can.
func try(socket string, client func(net.Conn) error) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	return client(conn)
}

func serve(socket, dir string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return p9.NewServer(localfs.Attacher(dir)).Serve(listener)
}

// check complains unless something is as it must be.
func check(what string, ok bool) error {
	if !ok {
		return fmt.Errorf("%s: not so", what)
	}
	return nil
}

// all runs steps up to the first that fails, and says which that was.
func all(steps []step) error {
	for _, step := range steps {
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println("ok", step.name)
	}
	return nil
}

type step struct {
	name string
	run  func() error
}
