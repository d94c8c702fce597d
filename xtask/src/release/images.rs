//! Images of programs: made as the lab makes them, with the program's bill of materials in them, for every architecture.
//!
//! Invariant: what an image has of another architecture than this machine's is the program and nothing of this machine.

use std::path::Path;

use anyhow::{Context as _, Result};
use kit_oci::image::{File, Image, Layer};
use kit_oci::published::{About, Published, write as publish};

use super::architecture::Architecture;
use super::catalogue::{CSI, Program};
use super::contents;
use super::origin::Origin;

/// Where scanners find what a program is made of.
const BILLS: &str = "/usr/share/sbom";

/// Writes the layout of one program's image. What cannot be made is added to `left_out`.
///
/// # Errors
/// It can be made for no architecture, or not be written.
pub(super) fn write(
    origin: &Origin,
    out: &Path,
    layout: &str,
    program: &Program,
    programs: &[contents::Program],
    left_out: &mut Vec<String>,
) -> Result<Published> {
    let name = format!("{}:{}", program.repository(), origin.version);
    let mut made = Vec::new();
    for built in programs.iter().filter(|one| one.name == program.binary) {
        match image(&name, program, built, out)? {
            Some(image) => made.push((built.architecture, image)),
            None => left_out.push(format!(
                "image {} for {}: it has tools for ext4 and XFS, which are taken from the machine; make it on one of \
                 this architecture",
                program.image, built.architecture
            )),
        }
    }
    let about = About {
        created: origin.commit.created.clone(),
        labels: origin.labels(program.title),
    };
    let images: Vec<_> = made
        .iter()
        .map(|(architecture, image)| (*architecture, image))
        .collect();
    publish(
        &out.join(layout),
        &origin.version.to_string(),
        &images,
        &about,
    )
    .with_context(|| format!("the image {} cannot be written", program.image))
}

fn image(
    name: &str,
    program: &Program,
    built: &contents::Program,
    out: &Path,
) -> Result<Option<Image>> {
    let is_own = Architecture::own().is_some_and(|own| own.name() == built.architecture);
    let binary = out.join(&built.file.file);
    let mut image = match program.binary {
        CSI if !is_own => return Ok(None),
        CSI => lab::images::csi(name, &binary)?,
        _ => lab::images::program(name, &binary, program.place)?,
    };
    let bill = std::fs::read(out.join(&built.sbom.file))?;
    let path = format!("{BILLS}/{}.cdx.json", program.binary);
    image
        .layers
        .push(Layer::Files(vec![File::bytes(path, bill)]));
    Ok(Some(image))
}
