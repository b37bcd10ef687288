//! Which file imports which: paths in `use` and in code, followed through re-exports to the file
//! that defines the name. Three things are no imports: what stands under `#[cfg(test)]`, a
//! re-export, and the parent's type that a child extends by an `impl`, which is one type written in
//! several files.

use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Attribute, Item, ItemImpl, ItemUse, Type, UseTree, Visibility, visit::Visit};

/// A module's path below the crate's root.
type Module = Vec<String>;

/// The files of one crate, as modules.
pub(crate) struct Imports {
    files: BTreeMap<Module, File>,
}

struct File {
    name: String,
    defined: BTreeSet<String>,
    uses: Vec<Use>,
    /// Paths in the code that begin with `crate`, `super` or `self`.
    paths: Vec<Vec<String>>,
    /// Types for which it has an `impl`.
    extended: BTreeSet<String>,
}

/// One name that a file imports or re-exports.
struct Use {
    path: Vec<String>,
    exported: bool,
    /// What it is called here; `None`: everything in the module.
    name: Option<String>,
}

impl Imports {
    /// Reads the files below `top`, whose root is `lib.rs`.
    pub(crate) fn of(sources: &[Source], top: &str) -> Self {
        let mut files = BTreeMap::new();
        for source in sources.iter().filter(|source| source.name != "src/main.rs") {
            let inside = source.name.trim_start_matches(top).trim_end_matches(".rs");
            let mut module: Module = inside.split('/').map(str::to_owned).collect();
            if module == ["lib"] {
                module.clear();
            }
            files.insert(module, File::read(source));
        }
        Imports { files }
    }

    /// Loops of files in which each one imports the next.
    pub(crate) fn circles(&self) -> Vec<String> {
        let edges = self.edges();
        let (mut done, mut found) = (BTreeSet::new(), Vec::new());
        for file in edges.keys() {
            walk(file, &edges, &mut Vec::new(), &mut done, &mut found);
        }
        found
    }

    /// Each file with those it imports.
    fn edges(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut edges = BTreeMap::new();
        for (module, file) in &self.files {
            let used = file.uses.iter().filter(|used| !used.exported);
            let paths = used.map(|used| &used.path).chain(&file.paths);
            let imported = paths.filter_map(|path| Some((path, self.definer(module, path, 0)?)));
            let others = imported
                .filter(|(path, other)| *other != file.name && !file.extends(path, other))
                .map(|(_, other)| other);
            edges.insert(file.name.as_str(), others.collect());
        }
        edges
    }

    /// The file that defines what `path` names in `module`; `None`: it is of another crate.
    fn definer(&self, module: &Module, path: &[String], depth: u32) -> Option<&str> {
        let (mut module, mut rest) = self.start(module, path)?;
        while let Some((name, tail)) = rest.split_first() {
            let child = [module.as_slice(), std::slice::from_ref(name)].concat();
            if !self.files.contains_key(&child) {
                return self.item(&module, name, depth);
            }
            (module, rest) = (child, tail);
        }
        self.files.get(&module).map(|file| file.name.as_str())
    }

    /// Where a path begins, and what is left of it.
    fn start<'a>(&self, module: &Module, path: &'a [String]) -> Option<(Module, &'a [String])> {
        let (first, rest) = path.split_first()?;
        let child = [module.as_slice(), std::slice::from_ref(first)].concat();
        match first.as_str() {
            "crate" => Some((Vec::new(), rest)),
            "self" => Some((module.clone(), rest)),
            "super" => {
                let ups = path.iter().take_while(|name| *name == "super").count();
                let kept = module.len().checked_sub(ups)?;
                Some((module[..kept].to_vec(), &path[ups..]))
            }
            _ => self.files.contains_key(&child).then_some((child, rest)),
        }
    }

    /// The file that defines `name` of `module`: itself, or whence it imports the name.
    fn item(&self, module: &Module, name: &str, depth: u32) -> Option<&str> {
        const DEEPEST: u32 = 8;
        let file = self.files.get(module)?;
        if file.defined.contains(name) || depth > DEEPEST {
            return Some(&file.name);
        }
        let named = file
            .uses
            .iter()
            .filter(|used| used.name.as_deref() == Some(name));
        let globs = file.uses.iter().filter(|used| used.name.is_none());
        let found = named
            .filter_map(|used| self.definer(module, &used.path, depth + 1))
            .next();
        let in_globs = || {
            globs
                .filter_map(|used| self.module_of(module, &used.path))
                .find(|of| self.files[of].defined.contains(name))
                .map(|of| self.files[&of].name.as_str())
        };
        found.or_else(in_globs).or(Some(&file.name))
    }

    /// The module that `path` names in `module`.
    fn module_of(&self, module: &Module, path: &[String]) -> Option<Module> {
        let (start, rest) = self.start(module, path)?;
        let named = [start, rest.to_vec()].concat();
        self.files.contains_key(&named).then_some(named)
    }
}

impl File {
    fn read(source: &Source) -> File {
        let parsed = syn::parse_file(&source.text).expect("rustc reads it, too");
        let mut file = File {
            name: source.name.clone(),
            defined: BTreeSet::new(),
            uses: Vec::new(),
            paths: Vec::new(),
            extended: BTreeSet::new(),
        };
        file.visit_file(&parsed);
        file
    }
}

impl File {
    /// `path` is a type of the parent `other`, which this file extends.
    fn extends(&self, path: &[String], other: &str) -> bool {
        let below = format!("{}/", other.trim_end_matches(".rs"));
        let named = path.last().is_some_and(|name| self.extended.contains(name));
        named && self.name.starts_with(&below)
    }
}

impl<'ast> Visit<'ast> for File {
    fn visit_item(&mut self, item: &'ast Item) {
        if let Some(attributes) = attributes(item)
            && attributes.iter().any(is_test)
        {
            return;
        }
        self.defined.extend(name(item));
        syn::visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let from = self.uses.len();
        self.take(&mut Vec::new(), &item.tree);
        let exported = !matches!(item.vis, Visibility::Inherited);
        self.uses[from..]
            .iter_mut()
            .for_each(|used| used.exported = exported);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let Type::Path(extended) = &*item.self_ty {
            let name = extended
                .path
                .segments
                .last()
                .map(|one| one.ident.to_string());
            self.extended.extend(name);
        }
        syn::visit::visit_item_impl(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|one| one.ident.to_string())
            .collect();
        if names.len() > 1 && ["crate", "super", "self"].contains(&names[0].as_str()) {
            self.paths.push(names);
        }
        syn::visit::visit_path(self, path);
    }
}

impl File {
    /// The names of one `use`.
    fn take(&mut self, before: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.take(before, &path.tree);
                before.pop();
            }
            UseTree::Name(name) if name.ident == "self" => {
                self.used(before.clone(), before.last().cloned())
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.used(
                    [before.as_slice(), std::slice::from_ref(&name)].concat(),
                    Some(name),
                );
            }
            UseTree::Rename(renamed) => {
                let path = [before.as_slice(), &[renamed.ident.to_string()]].concat();
                self.used(path, Some(renamed.rename.to_string()));
            }
            UseTree::Glob(_) => self.used(before.clone(), None),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.take(before, tree)),
        }
    }

    fn used(&mut self, path: Vec<String>, name: Option<String>) {
        let exported = false;
        self.uses.push(Use {
            path,
            exported,
            name,
        });
    }
}

fn attributes(item: &Item) -> Option<&[Attribute]> {
    match item {
        Item::Mod(item) => Some(&item.attrs),
        Item::Fn(item) => Some(&item.attrs),
        Item::Use(item) => Some(&item.attrs),
        Item::Impl(item) => Some(&item.attrs),
        _ => None,
    }
}

/// `#[cfg(test)]`.
fn is_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute
            .parse_args::<syn::Path>()
            .is_ok_and(|path| path.is_ident("test"))
}

/// What an item defines for others.
fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Struct(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Const(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Goes on from `file` along its imports; meeting a file of the way it came is a circle.
fn walk<'a>(
    file: &'a str,
    edges: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    way: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
    circles: &mut Vec<String>,
) {
    if let Some(at) = way.iter().position(|earlier| *earlier == file) {
        circles.push(way[at..].join(" → "));
        return;
    }
    if done.contains(file) {
        return;
    }
    way.push(file);
    for next in &edges[file] {
        walk(next, edges, way, done, circles);
    }
    way.pop();
    done.insert(file);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Imports {
        let source = |(name, text): &(&str, &str)| Source {
            name: format!("src/{name}.rs"),
            text: (*text).to_owned(),
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        Imports::of(&sources, "src/")
    }

    #[test]
    fn two_files_that_import_each_other_through_a_re_export_are_a_circle() {
        let circle = imports(&[
            ("lib", "mod a;"),
            ("a", "mod b; mod c; pub use c::*;"),
            ("a/b", "use super::C; pub struct B;"),
            ("a/c", "pub struct C; fn f(_: crate::a::b::B) {}"),
        ]);
        assert_eq!(circle.circles(), ["src/a/b.rs → src/a/c.rs"]);
    }

    #[test]
    fn what_only_tests_import_is_no_circle() {
        let none = imports(&[
            ("lib", "mod a; mod b;"),
            (
                "a",
                "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
            ),
            ("b", "use crate::a::A; pub struct B;"),
        ]);
        assert!(none.circles().is_empty());
    }
}
