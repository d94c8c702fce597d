//! Follows a path to what it names: through `use` in any module, to the file that defines it.
//!
//! Invariant: a name that is in no table of its module (a macro made it, it is another crate's) is
//! taken for the module's own.

use super::tree::Tree;

/// What a path leads to.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Target {
    Module(usize),
    /// An item of this module.
    Item(usize, String),
}

/// Where a path leads.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// None when it leaves the crate. More than one when a name means a module and an item.
    pub(super) targets: Vec<Target>,
    /// Modules whose `use` was needed on the way.
    pub(super) through: Vec<usize>,
}

/// The `use` lines that are being followed: module and name.
type Open<'p> = Vec<(usize, &'p str)>;

impl Tree<'_> {
    /// Follows `path` as it stands in `module`.
    pub(super) fn resolve(&self, module: usize, path: &[String]) -> Found {
        self.follow(module, path, &mut Vec::new())
    }

    fn follow<'p>(&'p self, module: usize, path: &'p [String], open: &mut Open<'p>) -> Found {
        let mut found = Found::default();
        let Some((first, rest)) = path.split_first() else {
            return found;
        };
        found.targets = match first.as_str() {
            "crate" => vec![Target::Module(self.root(module))],
            "self" => vec![Target::Module(module)],
            "super" => self.above(module),
            name => self.lookup(module, name, open).targets,
        };
        for name in rest {
            // What is behind a name is behind its module; an item's own parts stay with the item.
            if found.targets.iter().any(|t| matches!(t, Target::Module(_))) {
                found.targets.retain(|t| matches!(t, Target::Module(_)));
            }
            let before = std::mem::take(&mut found.targets);
            for target in before {
                let Target::Module(module) = target else {
                    found.targets.push(target);
                    continue;
                };
                if name == "super" {
                    found.targets.extend(self.above(module));
                    continue;
                }
                let next = self.lookup(module, name, open);
                found.through.extend(next.through);
                match next.targets.is_empty() {
                    true => found.targets.push(Target::Item(module, name.clone())),
                    false => found.targets.extend(next.targets),
                }
            }
        }
        found
    }

    fn above(&self, module: usize) -> Vec<Target> {
        let parent = self.modules[module].parent;
        parent.map(Target::Module).into_iter().collect()
    }

    /// What `name` means in a module: what is there by itself, then what is imported by name, then
    /// what `*` brings.
    pub(super) fn lookup<'p>(&'p self, module: usize, name: &'p str, open: &mut Open<'p>) -> Found {
        let here = &self.modules[module];
        let child = here.children.get(name).map(|child| Target::Module(*child));
        let item = here.defines.contains(name);
        let item = item.then(|| Target::Item(module, name.to_owned()));
        let mut found = Found {
            targets: child.into_iter().chain(item).collect(),
            through: Vec::new(),
        };
        if open.contains(&(module, name)) {
            return found;
        }
        open.push((module, name));
        let is_here = !found.targets.is_empty();
        let named = here
            .imports
            .iter()
            .filter(|i| i.name.as_deref() == Some(name));
        let mut is_imported = false;
        for import in named {
            is_imported = true;
            let targets = self.follow(module, &import.path, open).targets;
            match targets.is_empty() {
                // Another crate's: here is where this crate has it from.
                true if !is_here => found.targets.push(Target::Item(module, name.to_owned())),
                true => {}
                false => found.targets.extend(targets),
            }
        }
        if !is_here && !is_imported {
            for import in here.imports.iter().filter(|i| i.name.is_none()) {
                for target in self.follow(module, &import.path, open).targets {
                    if let Target::Module(source) = target {
                        found
                            .targets
                            .extend(self.lookup(source, name, open).targets);
                    }
                }
            }
        }
        open.pop();
        if !is_here && !found.targets.is_empty() {
            found.through.push(module);
        }
        found
    }
}
