/** The two views of a table: its rows, and their quality. */

import { Link } from '@tanstack/react-router';
import { buttonClass } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { t } from './i18n';

export function TableViews({ schemaId, tableId }: { schemaId: string; tableId: string }) {
  const className = cn(
    buttonClass({ kind: 'quiet' }),
    'min-h-6! aria-[current=page]:bg-background! aria-[current=page]:shadow-sm',
  );
  return (
    <nav aria-label={t('quality.views')} className="flex gap-0.5 rounded-md bg-muted p-0.5">
      <Link to="/tables/$tableId" params={{ tableId }} className={className}>
        {t('quality.rows')}
      </Link>
      <Link to="/quality/$schemaId" params={{ schemaId }} className={className}>
        {t('quality.name')}
      </Link>
    </nav>
  );
}
