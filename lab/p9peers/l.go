package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/hugelgupf/p9/linux"
	"github.com/hugelgupf/p9/p9"
)

// tryL uses 9P2000.L as hugelgupf/p9 speaks it.
func tryL(conn net.Conn) error {
	client, err := p9.NewClient(conn)
	if err != nil {
		return err
	}
	root, err := client.Attach("")
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	content := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	return all([]step{
		{"no messages of Google's own", func() error {
			return check("version 0", client.Version() == 0)
		}},
		{"mkdir", func() error {
			_, err := root.Mkdir("dir", 0o755, p9.NoUID, p9.NoGID)
			return err
		}},
		{"create, write, read", func() error { return createL(root, content) }},
		{"walk to what is missing", func() error {
			_, _, err := root.Walk([]string{"nothing"})
			return check("ENOENT", errors.Is(err, linux.ENOENT))
		}},
		{"readdir", func() error { return readdirL(root) }},
		{"rename", func() error {
			if err := root.RenameAt("new", root, "renamed"); err != nil {
				return err
			}
			size, err := sizeL(root, "renamed")
			if err != nil {
				return err
			}
			return check("the size", size == uint64(len(content)))
		}},
		{"truncate", func() error {
			_, file, err := root.Walk([]string{"renamed"})
			if err != nil {
				return err
			}
			defer file.Close()
			if err := file.SetAttr(p9.SetAttrMask{Size: true}, p9.SetAttr{Size: 7}); err != nil {
				return err
			}
			size, err := sizeL(root, "renamed")
			if err != nil {
				return err
			}
			return check("the size", size == 7)
		}},
		{"symlink and readlink", func() error {
			if _, err := root.Symlink("renamed", "link", p9.NoUID, p9.NoGID); err != nil {
				return err
			}
			_, link, err := root.Walk([]string{"link"})
			if err != nil {
				return err
			}
			defer link.Close()
			target, err := link.Readlink()
			if err != nil {
				return err
			}
			return check("the target", target == "renamed")
		}},
		{"unlink", func() error {
			if err := root.UnlinkAt("link", 0); err != nil {
				return err
			}
			if err := root.UnlinkAt("renamed", 0); err != nil {
				return err
			}
			const removeDir = 0x200
			if err := root.UnlinkAt("dir", removeDir); err != nil {
				return err
			}
			_, _, err := root.Walk([]string{"dir"})
			return check("ENOENT", errors.Is(err, linux.ENOENT))
		}},
		{"statfs", func() error {
			stat, err := root.StatFS()
			if err != nil {
				return err
			}
			return check("a block size", stat.BlockSize > 0)
		}},
		{"clunk", root.Close},
	})
}

func createL(root p9.File, content []byte) error {
	_, dir, err := root.Walk(nil)
	if err != nil {
		return err
	}
	file, _, _, err := dir.Create("new", p9.ReadWrite, 0o644, p9.NoUID, p9.NoGID)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(io.NewOffsetWriter(file, 0), bytes.NewReader(content)); err != nil {
		return err
	}
	if err := file.FSync(); err != nil {
		return err
	}
	found, err := io.ReadAll(io.NewSectionReader(file, 0, int64(len(content))+1))
	if err != nil {
		return err
	}
	return check("the content", bytes.Equal(found, content))
}

func readdirL(root p9.File) error {
	_, dir, err := root.Walk(nil)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, _, err := dir.Open(p9.ReadOnly); err != nil {
		return err
	}
	names := map[string]bool{}
	// So little room that an answer holds few.
	const room = 100
	for offset := uint64(0); ; {
		entries, err := dir.Readdir(offset, room)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			break
		}
		for _, entry := range entries {
			names[entry.Name] = true
			offset = entry.Offset
		}
	}
	return check("both names", names["dir"] && names["new"])
}

func sizeL(root p9.File, name string) (uint64, error) {
	_, file, err := root.Walk([]string{name})
	if err != nil {
		return 0, err
	}
	defer file.Close()
	_, _, attr, err := file.GetAttr(p9.AttrMaskAll)
	return attr.Size, err
}
