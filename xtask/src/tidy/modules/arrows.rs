//! Which file takes what from which other file of its crate.
//!
//! Invariant: an arrow leads to the file that defines the name, whatever `use` it was found through.

use std::collections::{BTreeMap, BTreeSet};

use super::resolve::Target;
use super::tree::Tree;

/// From one file to another.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Arrow {
    /// Where the first of the names stands.
    pub(super) line: usize,
    pub(super) names: BTreeSet<String>,
}

/// By the two files.
pub(super) type Arrows<'a> = BTreeMap<(&'a str, &'a str), Arrow>;

/// All arrows.
pub(super) fn arrows<'a>(tree: &Tree<'a>) -> Arrows<'a> {
    let mut arrows = Arrows::new();
    for (number, module) in tree.modules.iter().enumerate() {
        let mut add = |to: usize, name: &str, line: usize| {
            let to = tree.modules[to].file;
            if to != module.file {
                let arrow = arrows.entry((module.file, to)).or_default();
                arrow.names.insert(name.to_owned());
                if arrow.line == 0 || line < arrow.line {
                    arrow.line = line;
                }
            }
        };
        for import in &module.imports {
            let targets = tree.resolve(number, &import.path).targets;
            let has_item = targets.iter().any(|t| matches!(t, Target::Item(..)));
            for target in targets {
                match (target, &import.name) {
                    (Target::Item(to, name), _) => add(to, &name, import.line),
                    // A module that is gone through is no end: the paths through it are.
                    (Target::Module(to), Some(name)) => {
                        if !has_item && !goes_through(tree, number, name) {
                            add(to, import.path.last().unwrap_or(name), import.line);
                        }
                    }
                    (Target::Module(to), None) => {
                        if import.is_public || !brings(tree, number, to) {
                            add(to, "*", import.line);
                        }
                    }
                }
            }
        }
        for (path, line) in &module.mentions {
            for target in tree.resolve(number, path).targets {
                if let Target::Item(to, name) = target {
                    add(to, &name, *line);
                }
            }
        }
    }
    arrows
}

/// Whether some longer path of a module begins with `name`.
fn goes_through(tree: &Tree<'_>, module: usize, name: &str) -> bool {
    let module = &tree.modules[module];
    let imported = module.imports.iter().map(|import| &import.path);
    let begins = |path: &Vec<String>| path.len() > 1 && path[0] == name;
    imported.chain(module.mentions.keys()).any(begins)
}

/// Whether `*` of the module `source` brings `module` a name that it mentions.
fn brings(tree: &Tree<'_>, module: usize, source: usize) -> bool {
    let mentions = tree.modules[module].mentions.keys();
    let found = |name: &String| {
        !tree
            .lookup(source, name, &mut Vec::new())
            .targets
            .is_empty()
    };
    mentions.filter_map(|path| path.first()).any(found)
}
