// Where regions lie, by the words in their names: cities, countries, and the short names of clouds.
// A region whose name says nothing is listed beside the map, and not drawn at an invented place.
import { spot } from './land.js';

const PLACES = {
  us: [-77, 39], usa: [-77, 39], eu: [9, 50], asia: [140, 36],
  'us-east': [-77.5, 39], 'us-east-1': [-77.5, 39], 'us-east-2': [-83, 40], 'us-west': [-122, 38],
  'us-west-1': [-121, 37.5], 'us-west-2': [-120, 45.6], 'us-central': [-95.8, 41.3], eastus: [-79, 37.4],
  westus: [-121, 37.5], 'ca-central': [-73.6, 45.5], canada: [-79.4, 43.7], 'sa-east': [-46.6, -23.5],
  'eu-west': [-6.3, 53.3], 'eu-west-2': [-0.1, 51.5], 'eu-west-3': [2.3, 48.9], 'eu-central': [8.7, 50.1],
  'eu-north': [18, 59.3], 'eu-south': [9.2, 45.5], westeurope: [4.9, 52.4], northeurope: [-6.3, 53.3],
  'ap-south': [72.9, 19.1], 'ap-southeast': [103.8, 1.3], 'ap-southeast-2': [151.2, -33.9],
  'ap-northeast': [139.7, 35.7], 'ap-northeast-2': [127, 37.6], 'ap-northeast-3': [135.5, 34.7],
  'ap-east': [114.2, 22.3], 'me-south': [50.6, 26.2], 'me-central': [55.3, 25.2], 'af-south': [18.4, -33.9],
  'asia-east': [121.5, 25], 'asia-northeast': [139.7, 35.7], 'asia-southeast': [103.8, 1.3], 'asia-south': [72.9, 19.1],
  'europe-west': [3.8, 50.4], 'europe-north': [27.2, 60.5], 'europe-central': [21, 52.2],
  'southamerica-east': [-46.6, -23.5], 'northamerica-northeast': [-73.6, 45.5], australia: [151.2, -33.9],
  virginia: [-77.5, 39], ohio: [-83, 40], oregon: [-120, 45.6], california: [-121, 37.5], texas: [-97, 32],
  iowa: [-95.8, 41.3], washington: [-77, 38.9], chicago: [-87.6, 41.9], dallas: [-96.8, 32.8], newyork: [-74, 40.7],
  toronto: [-79.4, 43.7], montreal: [-73.6, 45.5], frankfurt: [8.7, 50.1], london: [-0.1, 51.5], paris: [2.3, 48.9],
  dublin: [-6.3, 53.3], ireland: [-6.3, 53.3], amsterdam: [4.9, 52.4], stockholm: [18, 59.3], zurich: [8.5, 47.4],
  milan: [9.2, 45.5], madrid: [-3.7, 40.4], warsaw: [21, 52.2], helsinki: [24.9, 60.2], falkenstein: [12.4, 50.5],
  nuremberg: [11.1, 49.5], berlin: [13.4, 52.5], tokyo: [139.7, 35.7], osaka: [135.5, 34.7], seoul: [127, 37.6],
  singapore: [103.8, 1.3], mumbai: [72.9, 19.1], delhi: [77.2, 28.6], sydney: [151.2, -33.9], melbourne: [145, -37.8],
  hongkong: [114.2, 22.3], taiwan: [121.5, 25], jakarta: [106.8, -6.2], bahrain: [50.6, 26.2], dubai: [55.3, 25.2],
  telaviv: [34.8, 32.1], johannesburg: [28, -26.2], capetown: [18.4, -33.9], saopaulo: [-46.6, -23.5],
  santiago: [-70.7, -33.4],
};

// The place of a region on the map; null if its name does not say. The longest known part counts.
export function place(name) {
  const parts = name.toLowerCase().split(/[^a-z0-9]+/).filter(Boolean);
  for (let length = parts.length; length > 0; length -= 1) {
    for (let start = 0; start + length <= parts.length; start += 1) {
      const some = parts.slice(start, start + length).join('-');
      const known = PLACES[some] ?? PLACES[some.replace(/\d+$/, '')] ?? PLACES[some.replace(/-/g, '')];
      if (known) return spot(...known);
    }
  }
  return null;
}
