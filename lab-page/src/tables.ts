// What the program says of itself and of a race. The fields are those of `crates/web`.

export interface Setting { key: string; value: string; help: string; source: string }

export interface Tables {
  version: string
  pages: { name: string; objects: number; bytes: number; hosts: number; source: string }[]
  presets: { name: string; about: string; settings: string; source: string }[]
  names: [string, string][]
  default_contestants: { usual: string[]; messages: string[]; cleartext: string[]; several_paths: string[] }
  transports: { name: string; profiles: string[]; messages: boolean; settings: Setting[] }[]
  keys: { name: string; value: string; help: string; group: string }[]
}

export interface Facts {
  points: { factors: Record<string, string>; network: string; workload: string; objects: number; bytes: number; random: boolean }[]
  contestants: string[]
  /** Whether a contestant uses only the first path of a network with several. */
  one_path: boolean[]
  seeds: number[]
  jobs: { point: number; contestant: number | null; seed: number }[]
  warnings: string[]
  toml: string
  command: string
  explains: boolean
}

export interface Standing {
  name: string
  typed: string
  median: number | null
  interval: [number, number] | null
  p75: number | null
  p95: number | null
  median_seed: number
  times: (number | null)[]
}

/** How contestant `a` compares with `b`, both as indices. The ratio is that of the median of `a` to the median of `b`. */
export interface Pair {
  a: number
  b: number
  ratio: number | null
  interval: [number, number] | null
  n: number
  faster: number
  slower: number
  verdict: 'faster' | 'slower' | 'tie' | 'open'
}

export interface Changed {
  change: string
  /** The number of seeds. */
  n: number
  winner: string | null
  flips: boolean
  medians_ms: (number | null)[]
}

export interface PointState {
  lines: { label: string; text: string }[]
  winner: string | null
  unit: string
  contestants: Standing[]
  pairs: Pair[]
  changes: Changed[]
  limit_ms: number | null
}

export interface RunObject {
  name: string
  bytes: number
  issued_ns: number | null
  first_byte_ns: number | null
  delivered_ns: number | null
  failure: string | null
  why: Record<string, number | null> | null
}

export interface Drawn {
  name: string
  seed: number
  page_ns: number | null
  objects: RunObject[]
  packets: [sent: number, arrived: number | null, fromClient: boolean, bytes: number][]
  left_out: number
  windows: [at: number, connection: number, bytes: number][]
  waits: [at: number, delay: number][]
}
