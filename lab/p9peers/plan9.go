package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"

	"9fans.net/go/plan9"
	"9fans.net/go/plan9/client"
)

// tryPlan9 uses 9P2000 as 9fans.net/go speaks it.
func tryPlan9(socket net.Conn) error {
	conn, err := client.NewConn(socket)
	if err != nil {
		return err
	}
	fs, err := conn.Attach(nil, "root", "")
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	content := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	return all([]step{
		{"mkdir", func() error {
			dir, err := fs.Create("dir", plan9.OREAD, plan9.DMDIR|0o755)
			if err != nil {
				return err
			}
			return dir.Close()
		}},
		{"create, write, read", func() error { return createPlan9(fs, content) }},
		{"walk to what is missing", func() error {
			_, err := fs.Stat("dir/nothing/there")
			return check("an error", err != nil)
		}},
		{"readdir", func() error {
			dir, err := fs.Open("dir", plan9.OREAD)
			if err != nil {
				return err
			}
			defer dir.Close()
			entries, err := dir.Dirreadall()
			if err != nil {
				return err
			}
			return check("one name", len(entries) == 1 && entries[0].Name == "new")
		}},
		{"rename and chmod", func() error {
			var change plan9.Dir
			change.Null()
			change.Name, change.Mode = "renamed", 0o600
			if err := fs.Wstat("dir/new", &change); err != nil {
				return err
			}
			stat, err := fs.Stat("dir/renamed")
			if err != nil {
				return err
			}
			return check("size and mode",
				stat.Length == uint64(len(content)) && stat.Mode&0o777 == 0o600)
		}},
		{"truncate", func() error {
			file, err := fs.Open("dir/renamed", plan9.OWRITE|plan9.OTRUNC)
			if err != nil {
				return err
			}
			defer file.Close()
			stat, err := file.Stat()
			if err != nil {
				return err
			}
			return check("no length", stat.Length == 0)
		}},
		{"remove", func() error {
			if err := fs.Remove("dir"); err == nil {
				return fmt.Errorf("a directory that is not empty went away")
			}
			if err := fs.Remove("dir/renamed"); err != nil {
				return err
			}
			if err := fs.Remove("dir"); err != nil {
				return err
			}
			_, err := fs.Stat("dir")
			return check("an error in words", err != nil && strings.Contains(err.Error(), "o such file"))
		}},
	})
}

func createPlan9(fs *client.Fsys, content []byte) error {
	file, err := fs.Create("dir/new", plan9.ORDWR, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	found, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	return check("the content", bytes.Equal(found, content))
}
