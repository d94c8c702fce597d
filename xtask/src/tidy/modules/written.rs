//! What one source file says of modules: those below it, what it defines, imports and mentions.
//!
//! Invariant: what is compiled for tests alone is left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};

use super::attributes::{attributes, is_of_tests};

/// A module as it is written: a file, or a block in one.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) children: Vec<Child>,
    /// Names of items, those inside of functions too.
    pub(super) defines: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    /// Paths outside of `use`, with the line where each stands first.
    pub(super) mentions: BTreeMap<Vec<String>, usize>,
    /// Names of modules, types and public functions, with their lines.
    pub(super) names: Vec<(String, usize)>,
}

/// `mod name;` or `mod name { … }`.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) name: String,
    /// `None` when it is a file.
    pub(super) block: Option<Written>,
}

/// One name of a `use`.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// What it is called here; `None` for `*`.
    pub(super) name: Option<String>,
    pub(super) is_public: bool,
    pub(super) line: usize,
}

/// Reads one file.
///
/// # Errors
/// Where it is no Rust.
pub(super) fn read(text: &str) -> syn::Result<Written> {
    let file = syn::parse_file(text)?;
    if is_of_tests(&file.attrs) {
        return Ok(Written::default());
    }
    let mut reader = Reader {
        open: Written::default(),
    };
    reader.visit_file(&file);
    Ok(reader.open)
}

/// Walks through the syntax; `open` is the module that it is in.
struct Reader {
    open: Written,
}

impl Reader {
    fn mention(&mut self, path: Vec<String>, line: usize) {
        let first = self.open.mentions.entry(path).or_insert(line);
        *first = line.min(*first);
    }

    fn name(&mut self, ident: &syn::Ident) {
        let line = ident.span().start().line;
        self.open.names.push((ident.unraw().to_string(), line));
    }

    fn import(&mut self, tree: &syn::UseTree, before: &[String], is_public: bool) {
        let with = |ident: &syn::Ident| [before, &[ident.unraw().to_string()]].concat();
        let (path, name, ident) = match tree {
            syn::UseTree::Path(path) => {
                return self.import(&path.tree, &with(&path.ident), is_public);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, is_public);
                }
                return;
            }
            syn::UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                return self.open.imports.push(Import {
                    path: before.to_vec(),
                    name: None,
                    is_public,
                    line,
                });
            }
            syn::UseTree::Name(name) => (with(&name.ident), &name.ident, &name.ident),
            syn::UseTree::Rename(name) => (with(&name.ident), &name.rename, &name.ident),
        };
        let (mut path, mut name) = (path, name.unraw().to_string());
        // `use a::{self}` means `a`.
        if !before.is_empty() && ident == "self" {
            path.pop();
            if name == "self" {
                name = path.last().cloned().unwrap_or_default();
            }
        }
        self.open.imports.push(Import {
            path,
            name: Some(name),
            is_public,
            line: ident.span().start().line,
        });
    }

    /// Paths in what a macro or an attribute is given, which is no syntax yet.
    fn scan(&mut self, tokens: TokenStream, has_paths_in_quotes: bool) {
        let (mut path, mut line): (Vec<String>, usize) = (Vec::new(), 0);
        // What stands before: the last two characters that are not part of a name.
        let (mut before, mut is_ours) = (String::new(), true);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if before.ends_with("::") => {
                    path.push(ident.unraw().to_string());
                    before.clear();
                }
                TokenTree::Ident(ident) => {
                    self.flush(&mut path, line, is_ours);
                    // A field, a lifetime and a macro's own variable are no paths of modules.
                    let is_crate = ident == "crate";
                    is_ours = is_crate || !before.ends_with(['.', '\'', '$']) || before == "..";
                    line = ident.span().start().line;
                    path.push(ident.unraw().to_string());
                    before.clear();
                }
                TokenTree::Punct(punct) => {
                    if punct.as_char() == ':' && before == ":" && path.is_empty() {
                        // `::name` is another crate's.
                        is_ours = false;
                        path.push(String::new());
                    }
                    if punct.as_char() != ':' {
                        self.flush(&mut path, line, is_ours);
                    }
                    before.push(punct.as_char());
                }
                TokenTree::Group(group) => {
                    self.flush(&mut path, line, is_ours);
                    before.clear();
                    self.scan(group.stream(), has_paths_in_quotes);
                }
                TokenTree::Literal(literal) => {
                    self.flush(&mut path, line, is_ours);
                    before.clear();
                    if has_paths_in_quotes
                        && let Ok(quoted) = syn::parse_str::<syn::LitStr>(&literal.to_string())
                        && let Ok(quoted) = quoted.parse::<syn::Path>()
                        && quoted.segments.len() > 1
                    {
                        self.mention(names(&quoted), literal.span().start().line);
                    }
                }
            }
        }
        self.flush(&mut path, line, is_ours);
    }

    fn flush(&mut self, path: &mut Vec<String>, line: usize, is_ours: bool) {
        let path = std::mem::take(path);
        if is_ours && !path.is_empty() {
            self.mention(path, line);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_of_tests(attributes(item)) {
            return;
        }
        let ident = match item {
            syn::Item::Const(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Fn(item) => Some(&item.sig.ident),
            syn::Item::Macro(item) => item.ident.as_ref(),
            syn::Item::Static(item) => Some(&item.ident),
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::TraitAlias(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        let defined = ident.map(|ident| ident.unraw().to_string());
        self.open.defines.extend(defined);
        match item {
            syn::Item::Enum(item) => self.name(&item.ident),
            syn::Item::Fn(item) if is_public(&item.vis) => self.name(&item.sig.ident),
            syn::Item::Mod(item) => self.name(&item.ident),
            syn::Item::Struct(item) => self.name(&item.ident),
            syn::Item::Trait(item) => self.name(&item.ident),
            syn::Item::Type(item) => self.name(&item.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let outer = std::mem::take(&mut self.open);
        visit::visit_item_mod(self, item);
        let inner = std::mem::replace(&mut self.open, outer);
        self.open.children.push(Child {
            name: item.ident.unraw().to_string(),
            block: item.content.is_some().then_some(inner),
        });
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // `use ::name` is another crate's.
        if item.leading_colon.is_none() {
            self.import(&item.tree, &[], is_public(&item.vis));
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let of_tests = match item {
            syn::ImplItem::Const(item) => is_of_tests(&item.attrs),
            syn::ImplItem::Fn(item) => is_of_tests(&item.attrs),
            syn::ImplItem::Type(item) => is_of_tests(&item.attrs),
            _ => false,
        };
        if of_tests {
            return;
        }
        if let syn::ImplItem::Fn(function) = item
            && is_public(&function.vis)
        {
            self.name(&function.sig.ident);
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.name(&function.sig.ident);
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_of_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if !is_of_tests(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_of_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let first = path.segments.first();
        if let (None, Some(first)) = (&path.leading_colon, first) {
            self.mention(names(path), first.ident.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.visit_path(&item.path);
        self.scan(item.tokens.clone(), false);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.scan(list.tokens.clone(), true);
        }
    }

    // `pub(in crate::a)` names who may look in, not what is taken.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// Whether others than this module may use it.
fn is_public(visibility: &syn::Visibility) -> bool {
    !matches!(visibility, syn::Visibility::Inherited)
}

fn names(path: &syn::Path) -> Vec<String> {
    let segments = path.segments.iter();
    segments
        .map(|segment| segment.ident.unraw().to_string())
        .collect()
}
