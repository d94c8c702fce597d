//! The modules of every crate, each with the file that holds it.
//!
//! Invariant: a module that no root reaches is not here, and neither is one of tests.

use std::collections::{BTreeMap, BTreeSet};

use super::written::{self, Import, Written};
use crate::tidy::files::is_generated;
use crate::tidy::finding::Finding;
use crate::tidy::source::is_of_tests;
use crate::tidy::text::Text;

/// One module.
#[derive(Debug)]
pub(super) struct Module<'a> {
    /// From the top of the repository.
    pub(super) file: &'a str,
    pub(super) parent: Option<usize>,
    pub(super) children: BTreeMap<String, usize>,
    pub(super) defines: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    pub(super) mentions: BTreeMap<Vec<String>, usize>,
    /// Of modules, types and public functions, with their lines.
    pub(super) names: Vec<(String, usize)>,
}

/// Where a file stands in its crate.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Place<'a> {
    /// The root's file.
    pub(super) root: &'a str,
    /// Names of modules from the root to this file's own.
    pub(super) path: Vec<String>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Tree<'a> {
    pub(super) modules: Vec<Module<'a>>,
    pub(super) places: BTreeMap<&'a str, Place<'a>>,
}

/// Files below `src/` that are read.
fn is_read(path: &str) -> bool {
    path.ends_with(".rs") && path.contains("src/") && !is_generated(path) && !is_skipped(path)
}

/// The test kit and the suites are no product, but their modules are judged as any others.
fn is_skipped(path: &str) -> bool {
    let inside = path.split_once("src/").map_or(path, |(_, inside)| inside);
    is_of_tests(&format!("/{inside}"))
}

/// Where a crate begins: its library, its program, and the programs in `bin`.
fn is_root(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    path.ends_with("src/lib.rs")
        || path.ends_with("src/main.rs")
        || folder.ends_with("src/bin") && path.ends_with(".rs")
}

impl<'a> Tree<'a> {
    /// Reads `texts`. What is no Rust is a finding.
    pub(super) fn build(texts: &'a [Text]) -> (Self, Vec<Finding>) {
        let (mut files, mut findings) = (BTreeMap::new(), Vec::new());
        let read: Vec<_> = texts.iter().filter(|text| is_read(&text.path)).collect();
        for (text, written) in read_all(&read) {
            match written {
                Ok(written) => drop(files.insert(text.path.as_str(), written)),
                Err((line, message)) => findings.push(Finding {
                    path: text.path.clone(),
                    line,
                    message,
                }),
            }
        }
        let mut tree = Self::default();
        let roots: Vec<_> = files.keys().copied().filter(|path| is_root(path)).collect();
        for root in roots {
            let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
            if let Some(written) = files.remove(root) {
                let place = Place {
                    root,
                    path: Vec::new(),
                };
                tree.places.insert(root, place);
                tree.add(root, None, folder, written, &mut files);
            }
        }
        (tree, findings)
    }

    /// Adds a module and everything below it. `folder` is where its children are.
    fn add(
        &mut self,
        file: &'a str,
        parent: Option<usize>,
        folder: &str,
        written: Written,
        files: &mut BTreeMap<&'a str, Written>,
    ) -> usize {
        let number = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            children: BTreeMap::new(),
            defines: written.defines,
            imports: written.imports,
            mentions: written.mentions,
            names: written.names,
        });
        for child in written.children {
            let below = format!("{folder}/{}", child.name);
            let added = match child.block {
                Some(block) => Some(self.add(file, Some(number), &below, block, files)),
                None => [format!("{below}.rs"), format!("{below}/mod.rs")]
                    .iter()
                    .find_map(|path| files.remove_entry(path.as_str()))
                    .map(|(path, written)| {
                        let outer = &self.places[file];
                        let place = Place {
                            root: outer.root,
                            path: [outer.path.as_slice(), std::slice::from_ref(&child.name)]
                                .concat(),
                        };
                        self.places.insert(path, place);
                        self.add(path, Some(number), &below, written, files)
                    }),
            };
            if let Some(added) = added {
                self.modules[number].children.insert(child.name, added);
            }
        }
        number
    }

    /// The module at the top of this one's crate.
    pub(super) fn root(&self, mut module: usize) -> usize {
        while let Some(parent) = self.modules[module].parent {
            module = parent;
        }
        module
    }
}

/// What one file says, or the line and the message of what is wrong.
type Outcome = Result<Written, (usize, String)>;

/// Reads files on every core: reading is nearly all of the time that this rule takes.
fn read_all<'a>(texts: &[&'a Text]) -> Vec<(&'a Text, Outcome)> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let read = |text: &'a Text| {
        let written = written::read(&text.text).map_err(|error| {
            let message = format!("is no Rust that `syn` can read: {error}");
            (error.span().start().line, message)
        });
        (text, written)
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..cores)
            .map(|core| {
                let part = texts.iter().copied().skip(core).step_by(cores);
                scope.spawn(move || part.map(read).collect::<Vec<_>>())
            })
            .collect();
        let join = |part: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
            part.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        started.into_iter().flat_map(join).collect()
    })
}
