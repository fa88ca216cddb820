import type { NextConfig } from 'next';

export default {
  serverExternalPackages: ['holdfast', '@holdfast/dashboard', 'pg'],
  // The dashboard's address ends with a slash.
  skipTrailingSlashRedirect: true,
} satisfies NextConfig;
