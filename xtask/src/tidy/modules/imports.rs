//! Names are imported from where they are defined: not through the root of the crate, nor through
//! what another folder hands on, and one by one.
//!
//! Invariant: what a folder's own file imports, the files right below it may take from there.

use std::collections::{BTreeMap, BTreeSet};

use super::exceptions::{DETOURS, PLACE, pairs};
use super::resolve::Target;
use super::tree::Tree;
use crate::tidy::finding::Finding;

/// What one file takes through another: name, file that defines it, line.
type Taken<'a> = BTreeSet<(String, &'a str, usize)>;

/// Every detour, every `*`, and every exception that is not needed.
pub(super) fn check(tree: &Tree<'_>) -> Vec<Finding> {
    find(tree, &pairs(DETOURS))
}

pub(super) fn find(tree: &Tree<'_>, exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let detours = detours(tree);
    let mut findings = stars(tree);
    for ((file, through), taken) in &detours {
        if exceptions.contains(&(*file, *through)) {
            continue;
        }
        let names: BTreeSet<_> = taken
            .iter()
            .map(|(name, defined, _)| match defined == through {
                // It hands on what is another crate's.
                true => format!("{name} from its own crate"),
                false => format!("{name} from {defined}"),
            })
            .collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        findings.push(Finding {
            path: (*file).to_owned(),
            line: taken.iter().map(|(_, _, line)| *line).min().unwrap_or(0),
            message: format!(
                "import {names}, not through {through}. What cannot be mended now stands in \
                 DETOURS of {PLACE}: \"{file} -> {through}\","
            ),
        });
    }
    let unneeded = exceptions
        .iter()
        .filter(|pair| !detours.contains_key(*pair));
    findings.extend(unneeded.map(|(file, through)| Finding {
        path: PLACE.to_owned(),
        line: 0,
        message: format!(
            "remove \"{file} -> {through}\" from DETOURS: it takes nothing that way any more"
        ),
    }));
    findings
}

fn detours<'a>(tree: &Tree<'a>) -> BTreeMap<(&'a str, &'a str), Taken<'a>> {
    let mut detours: BTreeMap<(&str, &str), Taken<'_>> = BTreeMap::new();
    for (number, module) in tree.modules.iter().enumerate() {
        let imports = module
            .imports
            .iter()
            .map(|import| (&import.path, import.line));
        let mentions = module.mentions.iter().map(|(path, line)| (path, *line));
        for (path, line) in imports.chain(mentions) {
            let found = tree.resolve(number, path);
            for through in found.through {
                if !is_detour(tree, number, through) {
                    continue;
                }
                let taken = detours
                    .entry((module.file, tree.modules[through].file))
                    .or_default();
                for target in &found.targets {
                    let (name, defined) = match target {
                        Target::Item(module, name) => (name, *module),
                        Target::Module(module) => (path.last().unwrap_or(&path[0]), *module),
                    };
                    taken.insert((name.clone(), tree.modules[defined].file, line));
                }
            }
        }
    }
    detours
}

/// Whether `through` is the root of the crate, or neither `module` nor its own folder's file.
fn is_detour(tree: &Tree<'_>, module: usize, through: usize) -> bool {
    let file = tree.modules[module].file;
    let mut above = Some(module);
    while let Some(number) = above.filter(|number| tree.modules[*number].file == file) {
        above = tree.modules[number].parent;
    }
    let is_own = tree.modules[through].file == file;
    let is_root = tree.modules[through].parent.is_none();
    !is_own && (is_root || above != Some(through))
}

/// `use …::*` of a module of the same crate.
fn stars(tree: &Tree<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, module) in tree.modules.iter().enumerate() {
        for import in module
            .imports
            .iter()
            .filter(|i| i.name.is_none() && !i.is_public)
        {
            let targets = tree.resolve(number, &import.path).targets;
            if targets
                .iter()
                .any(|target| matches!(target, Target::Module(_)))
            {
                findings.push(Finding {
                    path: module.file.to_owned(),
                    line: import.line,
                    message: format!(
                        "import names one by one, not `{}::*`",
                        import.path.join("::")
                    ),
                });
            }
        }
    }
    findings
}
