//! The files of one side: whom it trusts, its certificate, its key.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The section of the configuration that names them, for errors.
    pub section: &'static str,
    /// Certificates of the authorities that are trusted; none where nobody has to show one.
    pub ca: Option<PathBuf>,
    /// The certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What stands in them.
pub struct Material {
    pub(crate) roots: Option<RootCertStore>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// The key stays out of logs.
impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{section}.{field}: {}: {problem}; {remedy}", path.display())]
pub struct FileError {
    /// The section of the configuration.
    pub section: &'static str,
    /// Its field.
    pub field: &'static str,
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
    /// What to do.
    pub remedy: &'static str,
}

impl Files {
    /// All of them.
    #[must_use]
    pub fn paths(&self) -> Vec<&Path> {
        let ca = self.ca.iter().map(PathBuf::as_path);
        ca.chain([self.certificate.as_path(), self.key.as_path()]).collect()
    }

    /// An error about one of them.
    #[must_use]
    pub fn error(&self, field: &'static str, problem: impl fmt::Display) -> FileError {
        let path = match (field, &self.ca) {
            ("ca", Some(ca)) => ca,
            ("key", _) => &self.key,
            _ => &self.certificate,
        };
        FileError {
            section: self.section,
            field,
            path: path.clone(),
            problem: problem.to_string(),
            remedy: "make it with `meridian certs`",
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// Which file is not what it should be.
    pub fn read(&self) -> Result<Material, FileError> {
        let roots = match &self.ca {
            None => None,
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(ca).map_err(|problem| self.error("ca", problem))? {
                    roots.add(root).map_err(|error| self.error("ca", error))?;
                }
                Some(roots)
            }
        };
        let chain = certificates(&self.certificate);
        let chain = chain.map_err(|problem| self.error("certificate", problem))?;
        let key = PrivateKeyDer::from_pem_file(&self.key);
        let key = key.map_err(|error| self.error("key", error))?;
        Ok(Material { roots, chain, key })
    }
}

impl Material {
    /// The certificate itself, without those above it.
    #[must_use]
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.chain.first()
    }
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if all.is_empty() { Err("holds no certificate".to_owned()) } else { Ok(all) }
}
