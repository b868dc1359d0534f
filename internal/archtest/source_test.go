package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Limits of size. Generated files are free.
const (
	maxFileLines     = 600
	maxFunctionLines = 75
)

type source struct {
	pkg  goPackage
	name string // below the module's root
	file *ast.File
	fset *token.FileSet
	text []byte
	gen  bool
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// sources parses every file of the product, without tests.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	for _, p := range packages(t) {
		for _, f := range p.GoFiles {
			path := filepath.Join(p.Dir, f)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			rel, _ := filepath.Rel(root(t), path)
			out = append(out, source{pkg: p, name: rel, file: file, fset: fset, text: text, gen: ast.IsGenerated(file)})
		}
	}
	return out
}

func (s *source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.name, s.fset.Position(n.Pos()).Line)
}

func (s *source) internalName() string { return strings.TrimPrefix(s.pkg.ImportPath, module) }

// clockCalls read or wait for the time of the machine.
var clockCalls = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}

func TestPureCoresHaveNoGoroutineChannelOrClock(t *testing.T) {
	for _, s := range sources(t) {
		if !slices.Contains(pure, s.internalName()) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine in a pure core", s.at(n))
			case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s: a channel in a pure core", s.at(n))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockCalls, n.Sel.Name) {
					t.Errorf("%s: time.%s in a pure core", s.at(n), n.Sel.Name)
				}
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "rand" && !strings.HasPrefix(n.Sel.Name, "New") && ast.IsExported(n.Sel.Name) && n.Sel.Name != "Rand" && n.Sel.Name != "PCG" && n.Sel.Name != "ChaCha8" && n.Sel.Name != "Source" {
					t.Errorf("%s: rand.%s, the global source, in a pure core", s.at(n), n.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: init()", s.at(f))
			}
		}
	}
}

// Variables of a package hold tables and errors that nobody changes: nothing
// in the package may assign to them or to what they hold.
func TestNoPackageState(t *testing.T) {
	vars := map[string]map[string]string{} // package → variable → where
	all := sources(t)
	for _, s := range all {
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for _, name := range v.Names {
					if name.Name == "_" {
						continue
					}
					if len(v.Values) == 0 && !embedded(g) {
						t.Errorf("%s: package variable %s without a value can only be state", s.at(v), name.Name)
					}
					if vars[s.pkg.ImportPath] == nil {
						vars[s.pkg.ImportPath] = map[string]string{}
					}
					vars[s.pkg.ImportPath][name.Name] = s.at(v)
				}
			}
		}
	}
	for _, s := range all {
		ast.Inspect(s.file, func(n ast.Node) bool {
			var targets []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					targets = n.Lhs
				}
			case *ast.IncDecStmt:
				targets = []ast.Expr{n.X}
			}
			for _, e := range targets {
				id := base(e)
				// An identifier that the file itself declares elsewhere is local.
				if id != nil && id.Obj != nil && id.Obj.Kind == ast.Var {
					if _, global := id.Obj.Decl.(*ast.ValueSpec); global && vars[s.pkg.ImportPath][id.Name] != "" && s.file.Scope.Lookup(id.Name) == id.Obj {
						t.Errorf("%s: package variable %s is changed", s.at(e), id.Name)
					}
				}
			}
			return true
		})
	}
}

// embedded tells whether the compiler fills the variable with a file.
func embedded(g *ast.GenDecl) bool {
	return g.Doc != nil && slices.ContainsFunc(g.Doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}

func base(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// longFunctions are those above the limit, with the length they may not
// exceed; the list only gets shorter.
var longFunctions = map[string]int{}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		if s.gen {
			continue
		}
		if n := bytes.Count(s.text, []byte("\n")); n > maxFileLines {
			t.Errorf("%s has %d lines, more than %d: split it by concern", s.name, n, maxFileLines)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
			limit := max(maxFunctionLines, longFunctions[s.name+":"+f.Name.Name])
			if n > limit {
				t.Errorf("%s: %s has %d lines, more than %d", s.at(f), f.Name.Name, n, limit)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	docs := map[string]string{}
	dirs := map[string]goPackage{}
	for _, s := range sources(t) {
		dirs[s.pkg.ImportPath] = s.pkg
		if s.file.Doc != nil {
			docs[s.pkg.ImportPath] += s.file.Doc.Text()
		}
	}
	for path, p := range dirs {
		doc := docs[path]
		name := filepath.Base(p.Dir)
		if !strings.HasPrefix(doc, "Package "+name) && !strings.HasPrefix(doc, "Command ") {
			t.Errorf("%s has no package comment that begins with its name", path)
		}
		if len(strings.Fields(doc)) < 10 {
			t.Errorf("%s: the package comment says too little", path)
		}
	}
}

var vagueName = regexp.MustCompile(`(?i)(^|[/_.-])(utils?|common|helpers?|managers?|misc)([/_.-]|$)`)

func TestNamesSaySomething(t *testing.T) {
	for _, s := range sources(t) {
		if vagueName.MatchString(s.name) {
			t.Errorf("%s: a name that says nothing", s.name)
		}
	}
}

var sleeps = regexp.MustCompile(`\btime\.Sleep\(`)

func TestNoTestSleeps(t *testing.T) {
	err := filepath.WalkDir(root(t), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "archtest/source_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if sleeps.Match(text) {
			t.Errorf("%s sleeps: wait for a condition, or use virtual time", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")

// Every test that the documents name exists.
func TestDocumentsNameRealTests(t *testing.T) {
	exists := map[string]bool{}
	err := filepath.WalkDir(root(t), func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				exists[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Glob(root(t) + "/docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatal(err, docs)
	}
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testName.FindAllSubmatch(text, -1) {
			if !exists[string(m[1])] {
				t.Errorf("%s names %s, which does not exist", doc, m[1])
			}
		}
	}
}
