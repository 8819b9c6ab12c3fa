//! Profile-guided optimisation: a build that counts, a load on its gateway, and the flags of a build that
//! uses the counts.
//!
//! The load is the laboratory's own, plain answers, streams and long prompts, through one gateway to a
//! replica that answers at once. Only the gateway's counts are kept. `meridian-lab` is built with the
//! same flags, so that both programs share the compiled libraries.
//!
//! Both builds are for a named target, so that build scripts and macros are compiled without the flags,
//! and have the same arguments, since names of functions depend on those.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use super::binary::{self, Profile};
use super::place::{Place, fresh};
use super::programs::MERIDIAN;
use crate::cmd::{cmd, ends_well, stdout_of};
use crate::house::House;
use crate::running::Running;

/// Where a program that counts writes; a profile that is not wanted goes to the second.
const VARIABLE: &str = "LLVM_PROFILE_FILE";
const NOWHERE: &str = "/dev/null";
/// Seconds of each load.
const EACH: &str = "10s";
/// The loads: a prompt's bytes, and further arguments.
const LOADS: [(&str, &[&str]); 3] = [("64", &["--no-stream"]), ("64", &[]), ("65536", &[])];

/// The variables of a build's cargo.
pub(super) struct Flags {
    rustflags: String,
    target: String,
    folder: PathBuf,
}

impl Flags {
    /// Sets them for cargo, or for maturin, which runs it.
    pub(super) fn set(&self, command: &mut Command) {
        command.env("RUSTFLAGS", &self.rustflags);
        command.env("CARGO_BUILD_TARGET", &self.target);
        command.env("CARGO_TARGET_DIR", &self.folder);
    }

    /// The folder that has the built programs.
    pub(super) fn built(&self, profile: Profile) -> PathBuf {
        self.folder.join(&self.target).join(profile.folder())
    }
}

/// The compiler, as `rustc --version --verbose` describes it.
#[derive(Debug, PartialEq)]
struct Compiler {
    host: String,
    release: String,
    /// The first number of its LLVM's version.
    llvm: u32,
}

impl Compiler {
    fn of(text: &str) -> anyhow::Result<Compiler> {
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
            let found = lines.next().and_then(|rest| rest.strip_prefix(": "));
            found.with_context(|| format!("rustc --version --verbose has no {name}: {text}"))
        };
        let version = field("LLVM version")?;
        let llvm = version.split('.').next().and_then(|major| major.parse().ok());
        let llvm = llvm.with_context(|| format!("LLVM version {version} is not a number"))?;
        let (host, release) = (field("host")?.to_owned(), field("release")?.to_owned());
        Ok(Compiler { host, release, llvm })
    }

    /// The program that merges profiles, of rustup or of the system, if `exists` says that it is there.
    fn merger(&self, sysroot: &Path, exists: impl Fn(&Path) -> bool) -> anyhow::Result<PathBuf> {
        let Compiler { host, release, llvm } = self;
        let places = [
            sysroot.join("lib/rustlib").join(host).join("bin/llvm-profdata"),
            PathBuf::from(format!("/usr/bin/llvm-profdata-{llvm}")),
            PathBuf::from(format!("/usr/lib/llvm-{llvm}/bin/llvm-profdata")),
        ];
        let found = places.into_iter().find(|place| exists(place));
        found.with_context(|| {
            format!(
                "--pgo: llvm-profdata of LLVM {llvm} is missing, which reads the counts of rustc \
                 {release}; run `rustup component add llvm-tools`, or `apt-get install llvm-{llvm}`"
            )
        })
    }
}

/// Builds programs that count, puts a load on the gateway, and returns the flags of the build that uses the
/// counts.
pub(super) fn profiled(
    house: &House,
    place: &Place,
    profile: Profile,
    rustc_args: &[String],
) -> anyhow::Result<Flags> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = |args: &[&str]| stdout_of(cmd(&house.root, &rustc, args));
    let compiler = Compiler::of(&said(&["--version", "--verbose"])?)?;
    let sysroot = said(&["--print", "sysroot"])?;
    let merger = compiler.merger(Path::new(sysroot.trim()), Path::is_file)?;
    let counts = place.work.join("counts");
    fresh(&counts)?;
    let folder = house.metadata.target_directory.as_std_path().join("pgo");
    let flags = |rustflags: String| {
        let (target, folder) = (compiler.host.clone(), folder.clone());
        Flags { rustflags, target, folder }
    };
    println!("\n--pgo: programs that count");
    let counting = flags(format!("-Cprofile-generate={}", counts.display()));
    let programs = binary::build(house, place, profile, rustc_args, Some(&counting))?;
    println!("\n--pgo: {} loads of {EACH} on the gateway", LOADS.len());
    load(&programs.path(&MERIDIAN), &counts, place)?;
    let merged = place.work.join("pgo.profdata");
    let written = profiles(&counts)?;
    let mut merge = cmd(&house.root, &merger, &["merge", "-o"]);
    merge.arg(&merged).args(written);
    ensure!(ends_well(merge)?, "{} cannot merge the counts, see above", merger.display());
    Ok(flags(format!("-Cprofile-use={}", merged.display())))
}

/// The files of counts; an error if there are none.
fn profiles(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let files = files.collect::<Result<Vec<_>, _>>()?.into_iter().map(|one| one.path());
    let files: Vec<_> = files.filter(|path| path.extension() == Some("profraw".as_ref())).collect();
    if files.is_empty() {
        bail!("the gateway wrote no counts into {}; it has to end by itself", folder.display());
    }
    Ok(files)
}

/// Runs the loads through a gateway, and ends it so that it writes its counts.
fn load(meridian: &Path, counts: &Path, place: &Place) -> anyhow::Result<()> {
    let call = |args: &[&str], profile: &Path| {
        let mut command = cmd(&place.work, meridian, args);
        command.env(VARIABLE, profile);
        command
    };
    let uncounted = |args: &[&str]| call(args, Path::new(NOWHERE));
    let log = |name: &str| place.work.join(format!("pgo-{name}.log"));
    let replica = uncounted(&["bench", "mock", "--listen", "127.0.0.1:0"]);
    let replica = Running::start(replica, &log("replica"))?;
    let config = place.work.join("pgo-gateway.yaml");
    std::fs::write(&config, gateway(&replica.address))?;
    let named = config.display().to_string();
    let server = call(&["gateway", "-c", &named], &counts.join("gateway-%p-%m.profraw"));
    let server = Running::start(server, &log("gateway"))?;
    let url = format!("http://{}", server.address);
    for (bytes, more) in LOADS {
        let args = loading(&url, bytes, more);
        ensure!(ends_well(uncounted(&args))?, "meridian {} failed, see above", args.join(" "));
    }
    server.stop()
    // The replica has no orderly end; dropping it kills it.
}

/// The gateway's configuration.
fn gateway(replica: &str) -> String {
    format!(
        "version: 1\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\nreplicas:\n- {{url: \"http://{replica}\", \
         engine: auto}}\n"
    )
}

/// The arguments of a load.
fn loading<'a>(url: &'a str, bytes: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let start = ["bench", "--url", url, "--clients", "32", "--for", EACH, "--max-tokens", "8"];
    let prompt = ["--turns", "1", "--system-bytes", "0", "--question-bytes", bytes];
    [&start[..], &prompt, more].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: \
                        x86_64-unknown-linux-gnu\nrelease: 1.95.0\nLLVM version: 22.1.2\n";

    // The compiler's host and LLVM are read, and a text without them is an error.
    #[test]
    fn the_compiler_is_read() {
        let compiler = Compiler::of(SAID).unwrap();
        assert_eq!((compiler.host.as_str(), compiler.llvm), ("x86_64-unknown-linux-gnu", 22));
        let error = Compiler::of("rustc 1.95.0\n").unwrap_err().to_string();
        assert!(error.contains("has no LLVM version"), "{error}");
    }

    // rustup's own program goes first, then the system's of the same LLVM; without either the error
    // names both remedies.
    #[test]
    fn the_merger_is_of_the_same_llvm() {
        let compiler = Compiler::of(SAID).unwrap();
        let merger = |there: &[&str]| {
            compiler.merger(Path::new("/s"), |path| there.iter().any(|one| path == Path::new(one)))
        };
        let own = "/s/lib/rustlib/x86_64-unknown-linux-gnu/bin/llvm-profdata";
        let system = "/usr/bin/llvm-profdata-22";
        assert_eq!(merger(&[system, own]).unwrap(), Path::new(own));
        assert_eq!(merger(&[system]).unwrap(), Path::new(system));
        let error = merger(&["/usr/bin/llvm-profdata-19"]).unwrap_err().to_string();
        for part in
            ["LLVM 22", "1.95.0", "rustup component add llvm-tools", "apt-get install llvm-22"]
        {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    // Builds get the flags, the target and a folder of their own; the programs are found there.
    #[test]
    fn builds_have_their_variables() {
        let flags = Flags { rustflags: "-Cx".into(), target: "t".into(), folder: "/f".into() };
        let mut command = Command::new("cargo");
        flags.set(&mut command);
        let set: Vec<_> =
            command.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        assert!(set.contains(&("RUSTFLAGS".as_ref(), "-Cx".as_ref())), "{set:?}");
        assert!(set.contains(&("CARGO_BUILD_TARGET".as_ref(), "t".as_ref())), "{set:?}");
        assert_eq!(flags.built(Profile::Release), Path::new("/f/t/release"));
    }

    // Only counts are merged; a gateway that wrote none is an error.
    #[test]
    fn counts_are_found() {
        let folder = std::env::temp_dir().join(format!("meridian-pgo-{}", std::process::id()));
        fresh(&folder).unwrap();
        assert!(profiles(&folder).unwrap_err().to_string().contains("wrote no counts"));
        for name in ["a.profraw", "b.log"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(profiles(&folder).unwrap(), [folder.join("a.profraw")]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
