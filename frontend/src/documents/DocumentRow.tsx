/** One document of the list. The whole row leads to it. */

import { Link } from '@tanstack/react-router';
import { memo } from 'react';
import type { Document } from '../api/types';
import { Button } from '../shared/Button';
import { ago, atMoment, bytes, count, visibleText } from '../shared/format';
import { Menu, MenuItem } from '../shared/Menu';
import { Icon } from '../shared/Icon';
import styles from './DocumentsPage.module.css';
import { StageBadge } from './StageBadge';

interface Props {
  document: Document;
  canDelete: boolean;
  onDelete: (document: Document) => void;
}

/** Drawn anew only when it changes: dozens of them stand in a list that is scrolled. */
export const DocumentRow = memo(function DocumentRow({ document, canDelete, onDelete }: Props) {
  const facts = [
    document.page_count !== null && count(document.page_count, 'page'),
    document.byte_size !== null && bytes(document.byte_size),
  ].filter((fact) => fact !== false);
  return (
    <>
      <div className={styles.name} role="cell">
        <Icon name="page" />
        <Link to="/documents/$documentId" params={{ documentId: document.id }} className={`${styles.link} truncate`} title={visibleText(document.filename)}>
          {visibleText(document.filename)}
        </Link>
        {document.tags.map((tag) => (
          <span key={tag.id} className={styles.tag}>
            <span className={styles.dot} style={{ background: tag.color }} />
            {visibleText(tag.name)}
          </span>
        ))}
      </div>
      <div role="cell" className="truncate">
        <StageBadge document={document} />
        {document.error !== null && <span className={styles.why}>{document.error}</span>}
      </div>
      <div role="cell" className={`${styles.third} soft truncate`}>
        {facts.join(' · ')}
      </div>
      <div role="cell" className={`${styles.second} soft truncate`} title={atMoment(document.created_at)}>
        {ago(document.created_at)}
      </div>
      <div role="cell" className={styles.more}>
        {canDelete && (
          <Menu
            trigger={
              <Button kind="quiet" label={`Actions for ${visibleText(document.filename)}`}>
                <Icon name="more" />
              </Button>
            }
          >
            <MenuItem onChoose={() => onDelete(document)}>
              <Icon name="bin" /> Delete
            </MenuItem>
          </Menu>
        )}
      </div>
    </>
  );
});
