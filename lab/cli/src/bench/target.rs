//! The options that name an endpoint.

use meridian_tools::load::{Options, Place, Site, nearest_first};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Endpoint")]
pub(super) struct Target {
    /// Endpoint, http://host:port
    #[arg(long)]
    url: Option<String>,
    /// Gateway and its location; repeat for more. Clients use the nearest first
    #[arg(long = "gateway", value_name = "LAT,LON=URL", conflicts_with_all = ["url", "elsewhere"], requires = "at", allow_hyphen_values = true)]
    gateways: Vec<Site>,
    /// Location of the clients; repeat for more, which take turns
    #[arg(long, value_name = "LAT,LON", requires = "gateways", conflicts_with_all = ["url", "elsewhere"], allow_hyphen_values = true)]
    at: Vec<Place>,
    /// Endpoints for retries, nearest first, tried when no byte of an answer came
    #[arg(long = "elsewhere", value_name = "URL", value_delimiter = ',')]
    elsewhere: Vec<String>,
    /// Further endpoints; each session uses one of all
    #[arg(long = "also", value_name = "URL", value_delimiter = ',', conflicts_with_all = ["gateways", "at"])]
    also: Vec<String>,
    /// Model [default: the first of /v1/models]
    #[arg(long)]
    model: Option<String>,
    /// API key; repeat for more, each session uses one
    #[arg(long, env = "OPENAI_API_KEY", hide_env_values = true)]
    api_key: Vec<String>,
    /// Name of the system in the report
    #[arg(long, default_value = "live")]
    system: String,
}

impl Target {
    /// Sets the options of the endpoint.
    pub(super) fn set(self, options: &mut Options) {
        let first =
            self.at.first().and_then(|at| nearest_first(&self.gateways, *at).first().copied());
        let nearest = first.map(|site| site.url.clone()).unwrap_or_default();
        options.url = self.url.unwrap_or(nearest);
        options.sites = self.gateways;
        options.places = self.at;
        options.also = self.also;
        options.elsewhere = self.elsewhere;
        options.model = self.model;
        options.api_keys = self.api_key;
        options.system = self.system;
    }
}
