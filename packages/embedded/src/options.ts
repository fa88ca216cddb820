/**
 * What a caller may ask of an embedded server, and the PostgreSQL settings that it gets. The defaults suit a small
 * machine, but fsync and synchronous_commit stay on, so that a crash test means something. Settings that the launcher
 * depends on are refused.
 */
import { type Known, unknownOption } from 'holdfast/internal';
import { EmbeddedPostgresError } from './errors.js';

/** Options of `startEmbedded()`. */
export interface EmbeddedOptions {
  /** Where the data lives between runs. Default: `.holdfast/postgres` in the current folder. */
  dataDir?: string;
  /** Use a temporary folder, deleted at stop or when this process dies. Default false. */
  throwaway?: boolean;
  /** Further Postgres settings. They do not reach an adopted server. Default: none. */
  settings?: Record<string, string | number | boolean>;
  /** Called with a line for people about each step. Default: nothing. */
  onProgress?: (message: string) => void;
  /** A folder with `bin`, `lib` and `share`. Default: the installed npm package. */
  binariesDir?: string;
}

const knownOptions = {
  ...{ dataDir: true, throwaway: true, settings: true, onProgress: true, binariesDir: true },
} as const satisfies Known<EmbeddedOptions>;

const defaultSettings: Readonly<Record<string, string | number | boolean>> = {
  max_connections: 200,
  shared_buffers: '256MB',
  max_wal_size: '2GB',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_line_prefix: '%m [%p] ',
  cluster_name: 'holdfast',
};

const reservedSettings = new Set([
  ...['port', 'listen_addresses', 'unix_socket_directories', 'data_directory', 'hba_file'],
  ...['ident_file', 'config_file', 'external_pid_file', 'logging_collector', 'log_destination'],
  ...['password_encryption', 'ssl'],
]);

export function checkOptions(options: EmbeddedOptions): void {
  const unknown = unknownOption(options, knownOptions, 'startEmbedded()');
  if (unknown !== null) {
    throw new EmbeddedPostgresError('invalid_option', `${unknown} Nothing was started.`);
  }
  if (options.throwaway && options.dataDir !== undefined) {
    throw new EmbeddedPostgresError(
      'invalid_option',
      'A throwaway server cannot keep its data in dataDir. Nothing was started. ' +
        'Leave out one of the two options.',
    );
  }
  for (const name of Object.keys(options.settings ?? {})) {
    const lower = name.toLowerCase();
    if (/^[a-z_][a-z0-9_.]*$/.test(lower) && !reservedSettings.has(lower)) continue;
    throw new EmbeddedPostgresError(
      'invalid_option',
      `The setting ${JSON.stringify(name)} cannot be given to an embedded server, ` +
        'because its launcher depends on it or PostgreSQL has no such name. ' +
        'Nothing was started. Leave it out of settings.',
    );
  }
}

/** The `-c name=value` arguments of a server on this port. */
export function settingArguments(settings: EmbeddedOptions['settings'], port: number): string[] {
  const all = {
    ...defaultSettings,
    ...settings,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    port,
  };
  return Object.entries(all).flatMap(([name, value]) => {
    const text = typeof value === 'boolean' ? (value ? 'on' : 'off') : String(value);
    return ['-c', `${name}=${text}`];
  });
}
